// Package recipe knows how llama-quantize chooses the type of every tensor of a
// model: which tensors it quantizes at all, and which type each gets under the
// recipes Q4_K_M, IQ4_XS and so on. It computes the types of a recipe, and it
// recognizes the recipe of a file from the types that are really there.
//
// Reference: src/llama-quant.cpp of https://github.com/ggml-org/llama.cpp.
package recipe
