package stages

// limitedBuffer keeps the first limit bytes and lets the rest pass, so that a
// talkative process neither blocks nor fills the memory.
type limitedBuffer struct {
	kept  []byte
	limit int
	cut   bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	keep := min(len(p), b.limit-len(b.kept))
	b.cut = b.cut || keep < len(p)
	b.kept = append(b.kept, p[:keep]...)
	return len(p), nil
}
