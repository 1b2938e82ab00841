// Package llama is the Llama forward pass in float64: the reference that
// candidates are measured against.
//
// Weights are cast up exactly, every product and every sum is a float64, and
// nothing is rounded on the way (the caller may round the logits to float32 at the end).
// Sums run in one fixed order, so the result depends neither on the number of
// threads nor on how a batch was split. math.Exp and math.Sincos may differ in
// the last bit between processors; after rounding to float32 that is hardly ever seen.
//
// The architecture is Hugging Face's LlamaForCausalLM: RMSNorm, rotary
// position embedding (rotate-half; plain or llama3 scaling), grouped heads,
// SwiGLU, tied or separate head, no biases. Whatever a file asks for beyond
// that is refused by name, never ignored. Weights come from a Hugging Face
// folder ([OpenSnapshot]) or a GGUF file ([OpenGGUF]), whose interleaved Q and
// K rows are put back into Hugging Face's order when they are read: an exact
// conversion gives the same logits in every bit.
//
// References: transformers' modeling_llama.py; Su et al., RoFormer
// (arXiv:2104.09864); llama.cpp's convert_hf_to_gguf.py for the row order of Q and K.
package llama
