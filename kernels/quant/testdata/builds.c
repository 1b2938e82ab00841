// Writes the blocks that the linked build of ggml-quants.c makes of fixed weights;
// see builds.sh. The weights come from integers alone, so that build_test.go has the same.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "ggml.h"
#include "ggml-quants.h"

enum { ROWS = 128, WIDTH = 512 };

void ggml_abort(const char * file, int line, const char * fmt, ...) { (void)fmt; fprintf(stderr, "%s:%d\n", file, line); exit(1); }
size_t ggml_type_size(enum ggml_type t) { (void)t; return 0; }
const char * ggml_type_name(enum ggml_type t) { (void)t; return ""; }
static size_t row_bytes;
size_t ggml_row_size(enum ggml_type t, int64_t n) { (void)t; (void)n; return row_bytes; }

static uint64_t state;
static uint64_t next(void) {
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

// A number of 24 significant bits, whose size drops by a factor of two with each zero that follows.
static float weight(int exponent) {
    uint64_t r = next();
    int drop = 0;
    while (drop < 6 && (r >> 32 + drop & 1) == 0) drop++;
    float x = (float)(int32_t)(r & 0xFFFFFF) - 8388608.0f;
    int e = exponent - drop;
    for (; e < 0; e++) x *= 0.5f;
    return x;
}

int main(int argc, char ** argv) {
    if (argc != 3) return 2;
    int type = atoi(argv[1]), matrix = atoi(argv[2]);
    static float x[ROWS * WIDTH], importance[WIDTH];
    state = 1;
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < WIDTH; i++) {
            float w = weight(r == 3 ? -149 : r == 2 ? -120 : -28 - r % 5);
            x[r * WIDTH + i] = r == 0 ? 0 : r == 1 ? 0.25f : w;
        }
    for (int i = 0; i < WIDTH; i++) {
        uint64_t r = next();
        importance[i] = r >> 60 == 0 ? 0 : (float)(r & 0xFFFF) / 256;
    }
    static uint8_t out[ROWS * WIDTH * 2];
    size_t n = 0;
#define CASE(id, name, weights, bytes) case id: row_bytes = WIDTH / weights * bytes; n = row_bytes * ROWS; \
    quantize_##name(x, out, ROWS, WIDTH, matrix ? importance : NULL); break;
    switch (type) {
        CASE(2, q4_0, 32, 18) CASE(3, q4_1, 32, 20) CASE(6, q5_0, 32, 22) CASE(7, q5_1, 32, 24)
        CASE(10, q2_K, 256, 84) CASE(11, q3_K, 256, 110) CASE(12, q4_K, 256, 144) CASE(13, q5_K, 256, 176) CASE(14, q6_K, 256, 210)
        CASE(20, iq4_nl, 32, 18) CASE(23, iq4_xs, 256, 136)
    }
    return n == 0 || fwrite(out, 1, n, stdout) != n;
}
