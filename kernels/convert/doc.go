// Package convert turns a publisher's snapshot (safetensors, config and
// tokenizer) into GGUF, and a GGUF into quantized ones, with the bytes that
// llama.cpp's convert_hf_to_gguf.py and llama-quantize give. What those tools
// take from folder names and model cards (general.name and the like) is an
// explicit choice here: see [Options].
//
// The rules are data, for the conversion and for the proof of derivation alike:
// an [Architecture] is a table of names, shapes, transforms and keys, and a
// [Model] says what every tensor and key of a product must be.
package convert
