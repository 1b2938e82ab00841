package convert

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxPieces bounds the vocabulary; the largest known ones have under 300,000 pieces.
const maxPieces = 1 << 22

// Token types, numbered alike in SentencePiece and in GGUF.
const (
	TokenNormal      = 1
	TokenUnknown     = 2
	TokenControl     = 3
	TokenUserDefined = 4
	TokenUnused      = 5
	TokenByte        = 6
)

// piece is one entry of a SentencePiece vocabulary; its id is its index.
type piece struct {
	text  string
	score float32
	kind  int32
}

// parsePieces reads the vocabulary of a tokenizer.model: field 1 of the message
// ModelProto in sentencepiece_model.proto, whose fields are text (1), score (2) and type (3).
func parsePieces(body []byte) ([]piece, error) {
	var pieces []piece
	err := eachField(body, func(n protowire.Number, t protowire.Type, value []byte, _ uint64) error {
		if n != 1 {
			return nil
		}
		if t != protowire.BytesType {
			return fmt.Errorf("piece %d: got wire type %d, want a message", len(pieces), t)
		}
		if len(pieces) == maxPieces {
			return fmt.Errorf("got more than %d pieces, want at most that", maxPieces)
		}
		p, err := parsePiece(value)
		if err != nil {
			return fmt.Errorf("piece %d: %w", len(pieces), err)
		}
		pieces = append(pieces, p)
		return nil
	})
	if err == nil && len(pieces) == 0 {
		err = errors.New("got no pieces, want a SentencePiece vocabulary")
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer.model: %w", err)
	}
	return pieces, nil
}

func parsePiece(body []byte) (piece, error) {
	p := piece{kind: TokenNormal}
	err := eachField(body, func(n protowire.Number, t protowire.Type, value []byte, number uint64) error {
		switch {
		case n == 1 && t == protowire.BytesType:
			p.text = string(value)
		case n == 2 && t == protowire.Fixed32Type:
			p.score = math.Float32frombits(uint32(number))
		case n == 3 && t == protowire.VarintType:
			if number < TokenNormal || number > TokenByte {
				return fmt.Errorf("type: got %d, want %d to %d", number, TokenNormal, TokenByte)
			}
			p.kind = int32(number)
		case n <= 3:
			return fmt.Errorf("field %d: got wire type %d, want text, a 32-bit score or a type", n, t)
		}
		return nil
	})
	return p, err
}

// eachField walks the fields of a protobuf message. Numbers of any width arrive in number.
func eachField(body []byte, visit func(n protowire.Number, t protowire.Type, value []byte, number uint64) error) error {
	for at := 0; at < len(body); {
		n, t, tag := protowire.ConsumeTag(body[at:])
		if tag < 0 {
			return fmt.Errorf("byte %d: %w", at, protowire.ParseError(tag))
		}
		rest := body[at+tag:]
		var value []byte
		var number uint64
		var used int
		switch t {
		case protowire.BytesType:
			value, used = protowire.ConsumeBytes(rest)
		case protowire.VarintType:
			number, used = protowire.ConsumeVarint(rest)
		case protowire.Fixed32Type:
			var fixed uint32
			fixed, used = protowire.ConsumeFixed32(rest)
			number = uint64(fixed)
		default:
			used = protowire.ConsumeFieldValue(n, t, rest)
		}
		if used < 0 {
			return fmt.Errorf("field %d at byte %d: %w", n, at, protowire.ParseError(used))
		}
		if err := visit(n, t, value, number); err != nil {
			return err
		}
		at += tag + used
	}
	return nil
}
