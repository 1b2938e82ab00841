// Reads blocks of a tensor type from standard input and writes the weights that
// ggml's own reader of the type gives, as little-endian float32; or, with the
// argument "quantize", reads float32 weights of one row and writes blocks. Built against
// the static libraries of a plain x86-64 build of llama.cpp; the digests in hostile.json
// and fixed.json are of the sources in llama-cpp-python 0.3.36:
//
//	gcc -O2 -I llama.cpp/ggml/include reference.c build/ggml/src/libggml-base.a -lstdc++ -lm -lpthread -o reference
//
// usage: reference TYPE-NUMBER [quantize] <IN >OUT
#include "ggml.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dequantize_row_q8_K(const void * blocks, float * weights, int64_t n); // not in the table of readers

int main(int argc, char ** argv) {
    if (argc < 2) return 2;
    enum ggml_type type = atoi(argv[1]);
    const struct ggml_type_traits * traits = ggml_get_type_traits(type);
    size_t size = 0, capacity = 1 << 28;
    char * in = malloc(capacity);
    for (size_t n; (n = fread(in + size, 1, capacity - size, stdin)) > 0;) size += n;
    if (argc > 2 && !strcmp(argv[2], "quantize")) {
        size_t n = size / 4;
        char * out = calloc(n / traits->blck_size, traits->type_size);
        ggml_quantize_chunk(type, (const float *) in, out, 0, 1, n, NULL);
        fwrite(out, traits->type_size, n / traits->blck_size, stdout);
        return 0;
    }
    ggml_to_float_t read = type == GGML_TYPE_Q8_K ? dequantize_row_q8_K : traits->to_float;
    if (!read) return 3;
    size_t n = size / traits->type_size * traits->blck_size;
    float * out = malloc(n * 4);
    read(in, out, n);
    fwrite(out, 4, n, stdout);
    return 0;
}
