package token

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// loadModel reads the model and gives it with its tokens by id.
func loadModel(n node) (*bpe, []string, error) {
	kind, err := n.kind()
	if err != nil {
		return nil, nil, err
	}
	if kind != "BPE" {
		return nil, nil, n.errorf("got the model %q, want BPE", kind)
	}
	f, err := n.object("type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges")
	if err != nil {
		return nil, nil, err
	}
	if d := f["dropout"]; !d.absent() {
		if rate, err := strconv.ParseFloat(string(d.raw), 64); err != nil || rate != 0 {
			return nil, nil, d.errorf("got %s, want none: ids would be drawn at random", d.shown())
		}
	}
	for _, name := range []string{"continuing_subword_prefix", "end_of_word_suffix"} {
		if v := f[name]; !v.absent() && string(v.raw) != `""` {
			return nil, nil, v.errorf("got %s, want none", v.shown())
		}
	}
	m := &bpe{unknown: -1}
	fallback := false
	for name, to := range map[string]*bool{"fuse_unk": &m.fuseUnknown, "byte_fallback": &fallback, "ignore_merges": &m.ignoreMerges} {
		if f[name].absent() {
			continue
		}
		if *to, err = scalar[bool](f[name]); err != nil {
			return nil, nil, err
		}
	}
	tokens, err := m.loadVocab(f["vocab"])
	if err != nil {
		return nil, nil, err
	}
	if u := f["unk_token"]; !u.absent() {
		text, err := scalar[string](u)
		if err != nil {
			return nil, nil, err
		}
		id, ok := m.ids[text]
		if !ok {
			return nil, nil, u.errorf("got %q, want a token of the vocabulary", text)
		}
		m.unknown = int64(id)
	}
	if fallback {
		m.bytes = new([256]uint32)
		for b := range m.bytes {
			m.bytes[b], m.hasByte[b] = m.ids[byteToken(byte(b))], false
			_, m.hasByte[b] = m.ids[byteToken(byte(b))]
		}
	}
	return m, tokens, m.loadMerges(f["merges"])
}

// loadVocab reads the vocabulary. Its ids have to be 0 to n-1, each once.
func (m *bpe) loadVocab(n node) ([]string, error) {
	if len(n.raw) == 0 || n.raw[0] != '{' {
		return nil, n.errorf("got %s, want an object", n.shown())
	}
	dec := json.NewDecoder(bytes.NewReader(n.raw))
	dec.UseNumber()
	if _, err := dec.Token(); err != nil {
		return nil, n.errorf("%v", err)
	}
	m.ids = map[string]uint32{}
	highest := uint64(0)
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, n.errorf("%v", err)
		}
		text, _ := key.(string)
		value, err := dec.Token()
		if err != nil {
			return nil, n.errorf("%v", err)
		}
		number, _ := value.(json.Number)
		id, err := strconv.ParseUint(number.String(), 10, 32)
		switch {
		case err != nil:
			return nil, n.errorf("token %q: got %v, want an id", text, value)
		case text == "" || len(text) > maxTokenLen:
			return nil, n.errorf("id %d: got a token of %d bytes, want 1 to %d", id, len(text), maxTokenLen)
		case len(m.ids) >= maxTokens:
			return nil, n.errorf("got more than %d tokens, want at most that", maxTokens)
		}
		m.ids[text] = uint32(id)
		highest = max(highest, id)
	}
	if len(m.ids) > 0 && highest >= uint64(len(m.ids)) {
		return nil, n.errorf("got the id %d among %d tokens, want the ids 0 to %d, each once", highest, len(m.ids), len(m.ids)-1)
	}
	tokens := make([]string, len(m.ids))
	for text, id := range m.ids {
		if tokens[id] != "" {
			return nil, n.errorf("got the id %d for %q and %q, want it once", id, min(text, tokens[id]), max(text, tokens[id]))
		}
		tokens[id] = text
	}
	return tokens, nil
}

// loadMerges reads the merges: pairs, or in older files two tokens with a space between.
func (m *bpe) loadMerges(n node) error {
	members, err := n.array(maxMerges)
	if err != nil {
		return err
	}
	m.merges = make(map[[2]uint32]merge, len(members))
	for rank, member := range members {
		left, right, err := mergePair(member)
		if err != nil {
			return err
		}
		var pair [2]uint32
		for i, part := range []string{left, right} {
			id, ok := m.ids[part]
			if !ok {
				return member.errorf("got the part %q, want a token of the vocabulary", part)
			}
			pair[i] = id
		}
		to, ok := m.ids[left+right]
		if !ok {
			return member.errorf("got %q and %q, which make no token of the vocabulary", left, right)
		}
		if _, twice := m.merges[pair]; twice {
			return member.errorf("got the merge of %q and %q twice, want it once", left, right)
		}
		m.merges[pair] = merge{uint32(rank), to}
	}
	return nil
}

func mergePair(n node) (left, right string, err error) {
	if len(n.raw) > 0 && n.raw[0] == '"' {
		text, err := scalar[string](n)
		if err != nil {
			return "", "", err
		}
		left, right, ok := strings.Cut(text, " ")
		if !ok || strings.Contains(right, " ") {
			return "", "", n.errorf("got %q, want two tokens with a space between", text)
		}
		return left, right, nil
	}
	parts, err := n.array(2)
	if err != nil {
		return "", "", err
	}
	if len(parts) != 2 {
		return "", "", n.errorf("got %d tokens, want 2", len(parts))
	}
	if left, err = scalar[string](parts[0]); err != nil {
		return "", "", err
	}
	right, err = scalar[string](parts[1])
	return left, right, err
}
