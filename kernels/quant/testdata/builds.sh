#!/bin/sh
# Prints builds.json: the first eight bytes of the SHA-256 of what each build of ggml's quantizers makes
# of the weights of builds.c, by build, tensor type (its GGUF number) and matrix (0 or 1).
# Needs llama.cpp's source as the first argument, gcc 12.2, clang 14.0, gcc 12.2 for aarch64 and qemu-aarch64.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
include="-I$1/ggml/include -I$1/ggml/src -I$1/ggml/src/ggml-cpu -D_GNU_SOURCE -DNDEBUG -std=gnu11 -w"
arm="-I/usr/aarch64-linux-gnu/include"
build() { # name, runner, linker, compiler and flags
	name=$1 runner=$2 linker=$3
	shift 3
	"$@" $include -O3 -fPIC -c "$source/ggml/src/ggml-quants.c" -o "$work/q.o"
	$linker $include -O2 -static "$here/builds.c" "$work/q.o" -lm -o "$work/run"
	printf '%s  "%s": {' "$comma" "$name"
	inner=''
	for type in 2 3 6 7 10 11 12 13 14 20 23; do
		for matrix in 0 1; do
			printf '%s"%s-%s": "%s"' "$inner" $type $matrix "$($runner "$work/run" $type $matrix | sha256sum | cut -c1-16)"
			inner=', '
		done
	done
	printf '}'
	comma=',
'
}
source=$1 comma='{
'
build plain '' gcc gcc
build gcc-fma '' gcc gcc -march=x86-64-v3
build gcc-fma-zen '' gcc gcc -march=znver3
build gcc-fma-arm64 qemu-aarch64 aarch64-linux-gnu-gcc aarch64-linux-gnu-gcc
build clang-fma qemu-aarch64 aarch64-linux-gnu-gcc clang-14 --target=aarch64-linux-gnu $arm
build clang-fma-x86 '' gcc clang-14 -march=x86-64-v3
printf '\n}\n'
