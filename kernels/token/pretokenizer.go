package token

// piece is a part of the text that the model sees by itself. First says that
// it begins where the text begins.
type piece struct {
	text  string
	first bool
}

// pretokenizer cuts a piece; nil leaves it whole.
type pretokenizer func(piece) []piece

func loadPretokenizer(n node) (pretokenizer, error) {
	if n.absent() {
		return nil, nil
	}
	kind, err := n.kind()
	if err != nil {
		return nil, err
	}
	switch kind {
	case "Sequence":
		return loadPretokenizers(n)
	case "Metaspace":
		m, err := loadMetaspace(n)
		if err != nil {
			return nil, err
		}
		return m.split, nil
	case "Split":
		return loadSplit(n)
	case "Digits":
		return loadDigits(n)
	case "ByteLevel":
		return loadByteLevel(n)
	case "Punctuation":
		return loadPunctuation(n)
	}
	return nil, n.errorf("got the pre-tokenizer %q, want Sequence, ByteLevel, Metaspace, Split, Digits or Punctuation", kind)
}

func loadPretokenizers(n node) (pretokenizer, error) {
	f, err := n.object("type", "pretokenizers")
	if err != nil {
		return nil, err
	}
	members, err := f["pretokenizers"].array(maxSteps)
	if err != nil {
		return nil, err
	}
	var steps []pretokenizer
	for _, m := range members {
		step, err := loadPretokenizer(m)
		if err != nil {
			return nil, err
		}
		if step == nil {
			return nil, m.errorf("got null, want a pre-tokenizer")
		}
		steps = append(steps, step)
	}
	return func(p piece) []piece {
		pieces := []piece{p}
		for _, step := range steps {
			var cut []piece
			for _, p := range pieces {
				cut = append(cut, step(p)...)
			}
			pieces = cut
		}
		return pieces
	}, nil
}

// cut splits a piece at the matches of an expression.
func cut(p piece, at pattern, join behaviour, invert bool) []piece {
	spans := spansOf(at, p.text)
	if invert {
		for i := range spans {
			spans[i].match = !spans[i].match
		}
	}
	var out []piece
	for _, s := range join(spans) {
		out = append(out, piece{p.text[s.from:s.to], p.first && s.from == 0})
	}
	return out
}

func loadSplit(n node) (pretokenizer, error) {
	f, err := n.object("type", "pattern", "behavior", "invert")
	if err != nil {
		return nil, err
	}
	at, err := loadPattern(f["pattern"])
	if err != nil {
		return nil, err
	}
	join, err := loadBehaviour(f["behavior"])
	if err != nil {
		return nil, err
	}
	invert, err := scalar[bool](f["invert"])
	if err != nil {
		return nil, err
	}
	return func(p piece) []piece { return cut(p, at, join, invert) }, nil
}

func loadBehaviour(n node) (behaviour, error) {
	name, err := scalar[string](n)
	if err != nil {
		return nil, err
	}
	join, ok := behaviours[name]
	if !ok {
		return nil, n.errorf("got %q, want Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous", name)
	}
	return join, nil
}

// gpt2Words is the expression that ByteLevel has built in.
var gpt2Words = mustCompile(`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`)

func loadPunctuation(n node) (pretokenizer, error) {
	f, err := n.object("type", "behavior")
	if err != nil {
		return nil, err
	}
	join, err := loadBehaviour(f["behavior"])
	if err != nil {
		return nil, err
	}
	marks := punctuation()
	return func(p piece) []piece { return cut(p, marks, join, false) }, nil
}

func loadDigits(n node) (pretokenizer, error) {
	f, err := n.object("type", "individual_digits")
	if err != nil {
		return nil, err
	}
	individual, err := scalar[bool](f["individual_digits"])
	if err != nil {
		return nil, err
	}
	join := contiguous
	if individual {
		join = behaviours["Isolated"]
	}
	return func(p piece) []piece { return cut(p, numbers, join, false) }, nil
}
