package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/token"
)

// tokenizeTool is llama-tokenize as a side. One process reads all cases, one after
// the other with special tokens between them, which cut a text as its start does: from
// its ids come those of every case, and from what it prints of them their
// pieces. What it puts around the whole is taken for what it puts around each
// case. Only where special tokens stay text can they not separate: a case without
// one written out has the same ids either way, each other has a process of its own.
type tokenizeTool struct {
	read, plain map[string][]uint32
	around      [2][]uint32 // before and after
	pieces      map[uint32][]byte
	source      kernels.Input
}

const (
	maxTokenized = 64 << 20 // bytes that the tool may print
	separation   = 7        // times that the second separator stands, which no case does
)

// unprinted tells cases that the tool cannot print: C's strings end at a NUL.
func unprinted(text string) bool { return strings.Contains(text, "\x00") }

func tokenizeCommand(run *Run, with parityWith) (toolCommand, error) {
	program, err := builtTool(run, with.Tool)
	if err != nil {
		return toolCommand{}, err
	}
	if _, err := run.Single("model"); err != nil {
		return toolCommand{}, err
	}
	timeout, err := toolTimeout(with.Timeout)
	return toolCommand{Name: "tokenize", Program: program, Args: []string{"-m", "{input/model}", "--stdin", "--no-escape"}, Timeout: timeout, Box: with.Box}, err
}

// newTokenizeTool asks the tool about every case. It is nil where the tool failed, which the outcome says.
func newTokenizeTool(ctx context.Context, run *Run, with parityWith, corpus []string, out *Outcome) (*tokenizeTool, error) {
	command, err := tokenizeCommand(run, with)
	if err != nil {
		return nil, err
	}
	f, model, err := run.Inputs["model"].openGGUF("model")
	if err != nil {
		return nil, err
	}
	special, err := specialTokens(model)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	watch := watched{}
	prepared, err := prepareTool(ctx, run, command, watch)
	if err != nil {
		return nil, err
	}
	defer prepared.box.Close()
	out.addDependencies(prepared.dependencies)
	addBoxFacts(out, prepared.box.Facts())
	a := &asking{ctx: ctx, tool: prepared, timeout: command.Timeout, special: special, log: limitedBuffer{limit: maxLog}}
	t, failure := a.all(corpus)
	prepared.record(out, command, toolResult{ExitStatus: a.status})
	if err := putLogs(context.WithoutCancel(ctx), run, out, command.Name, toolResult{Stderr: a.log.kept}); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := prepared.recheck(ctx, run, watch); err != nil {
		return nil, fmt.Errorf("%w; what the tool said is not to be trusted", err)
	}
	if failure != "" {
		out.ExitStatus = a.status
		out.fail(failure)
		return nil, nil
	}
	t.source = kernels.Input{Name: "tool/" + filepath.Base(command.Program), Digest: prepared.dependencies[0].Digest}
	if st, err := os.Stat(command.Program); err == nil {
		t.source.Size = st.Size()
	}
	return t, nil
}

// separator is a special token, written out.
type separator struct {
	id   uint32
	text string
}

// specialTokens are those of a file, whatever its kind of vocabulary. Two of them
// separate cases: written out, they cut a text for certain.
func specialTokens(model *gguf.File) ([]separator, error) {
	tokens, _ := model.KV("tokenizer.ggml.tokens")
	types, _ := model.KV("tokenizer.ggml.token_type")
	texts, kinds := tokens.Strings(), types.Ints()
	if len(texts) != len(kinds) {
		return nil, fmt.Errorf("input model: got %d tokens and %d types, want one of each", len(texts), len(kinds))
	}
	var found []separator
	for id, kind := range kinds {
		if (kind == token.TypeControl || kind == token.TypeUnknown) && texts[id] != "" {
			found = append(found, separator{uint32(id), texts[id]})
		}
	}
	if len(found) < 2 {
		return nil, fmt.Errorf("input model: got %d special tokens, want two that separate cases; compare with a server instead", len(found))
	}
	return found, nil
}

// asking runs the tool, one text at a time.
type asking struct {
	ctx     context.Context
	tool    *preparedTool
	timeout time.Duration
	special []separator
	status  int
	log     limitedBuffer
}

// all asks about every case, alone and within a sentence. The words say how the tool failed.
func (a *asking) all(corpus []string) (*tokenizeTool, string) {
	t := &tokenizeTool{read: map[string][]uint32{}, plain: map[string][]uint32{}, pieces: map[uint32][]byte{}}
	var texts []string
	for _, c := range corpus {
		if !unprinted(c) {
			texts = append(texts, c, token.Within(c))
		}
	}
	whole, sep := a.document(texts)
	ids, failure := a.ids(whole)
	if failure != "" {
		return nil, failure
	}
	parts := cutAt(ids, sep)
	if len(parts) != len(texts)+2 {
		return nil, fmt.Sprintf("the tool gives %d parts for %d cases with special tokens between them, want one of each and what stands around all", len(parts), len(texts))
	}
	t.around = [2][]uint32{parts[0], parts[len(parts)-1]}
	for i, text := range texts {
		t.read[text] = parts[i+1]
	}
	printed, failure := a.run(whole)
	if failure == "" {
		failure = t.readPieces(printed, ids)
	}
	for i := 0; i < len(texts) && failure == ""; i += 2 {
		if t.plain[texts[i]] = t.read[texts[i]]; a.written(texts[i]) {
			t.plain[texts[i]], failure = a.ids(texts[i], "--no-parse-special", "--no-bos")
		}
	}
	return t, failure
}

// document puts all texts into one, with separators before, between and behind them.
func (a *asking) document(texts []string) (whole string, sep []uint32) {
	first, second := a.special[0], a.special[1]
	between := first.text + strings.Repeat(second.text, separation)
	sep = append(sep, first.id)
	for range separation {
		sep = append(sep, second.id)
	}
	return between + strings.Join(texts, between) + between, sep
}

// cutAt cuts a list at every place of another, from the left.
func cutAt(ids, sep []uint32) (parts [][]uint32) {
	from := 0
	for at := 0; at+len(sep) <= len(ids); {
		if !slices.Equal(ids[at:at+len(sep)], sep) {
			at++
			continue
		}
		parts = append(parts, ids[from:at])
		at += len(sep)
		from = at
	}
	return append(parts, ids[from:])
}

// written tells whether a special token is written out in a text.
func (a *asking) written(text string) bool {
	return slices.ContainsFunc(a.special, func(s separator) bool { return strings.Contains(text, s.text) })
}

func (a *asking) ids(text string, more ...string) ([]uint32, string) {
	if text == "" { // which the tool takes for none given
		return []uint32{}, ""
	}
	printed, failure := a.run(text, append([]string{"--ids"}, more...)...)
	if failure != "" {
		return nil, failure
	}
	ids := []uint32{}
	if err := json.Unmarshal(printed, &ids); err != nil {
		return nil, fmt.Sprintf("the tool ended with 0 and printed no list of ids: %v", err)
	}
	return ids, ""
}

// run gives the tool a text and takes what it prints.
func (a *asking) run(text string, more ...string) ([]byte, string) {
	limit, cancel := limited(a.ctx, a.timeout)
	defer cancel()
	cmd, err := a.tool.box.Command(limit, slices.Concat([]string{a.tool.path}, a.tool.args, more)...)
	if err != nil {
		return nil, err.Error()
	}
	stdout := &limitedBuffer{limit: maxTokenized}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = strings.NewReader(text), stdout, &a.log, 5*time.Second
	ownGroup(cmd)
	err = cmd.Run()
	endGroup(cmd)
	switch {
	case err != nil:
		a.status = -1
		if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() != 0 {
			a.status = cmd.ProcessState.ExitCode()
		}
		return nil, fmt.Sprintf("the tool failed: %v: %s", err, lastLine(a.log.kept))
	case stdout.cut:
		return nil, fmt.Sprintf("the tool printed more than %d bytes", maxTokenized)
	}
	return stdout.kept, ""
}

// readPieces takes the piece of every id from "    15 -> 'abc'" and a line break
// each. The ids are known, so a piece may hold whatever it likes.
func (t *tokenizeTool) readPieces(printed []byte, ids []uint32) string {
	head := func(id uint32) []byte { return fmt.Appendf(nil, "%6d -> '", id) }
	for i, id := range ids {
		rest, ok := bytes.CutPrefix(printed, head(id))
		end := len(rest) - 2
		if i+1 < len(ids) {
			end = bytes.Index(rest, append([]byte("'\n"), head(ids[i+1])...))
		}
		if !ok || end < 0 || !bytes.HasPrefix(rest[end:], []byte("'\n")) {
			return fmt.Sprintf("the tool prints no piece of id %d, position %d, in the form that is known", id, i)
		}
		piece := bytes.Clone(rest[:end])
		if before, known := t.pieces[id]; known && !bytes.Equal(before, piece) {
			return fmt.Sprintf("the tool prints %q and %q for the id %d", before, piece, id)
		}
		t.pieces[id], printed = piece, rest[end+2:]
	}
	return ""
}

// IDs implements [token.Side].
func (t *tokenizeTool) IDs(_ context.Context, text string, mode token.Mode) ([]uint32, error) {
	from := t.read
	if mode.Plain {
		from = t.plain
	}
	ids, ok := from[text]
	if !ok {
		return nil, token.ErrCannot
	}
	if mode.Special {
		return slices.Concat(t.around[0], ids, t.around[1]), nil
	}
	return slices.Clone(ids), nil
}

// Text implements [token.Side].
func (t *tokenizeTool) Text(ctx context.Context, ids []uint32) (string, error) {
	pieces, err := t.Pieces(ctx, ids)
	return strings.ToValidUTF8(string(bytes.Join(pieces, nil)), "\uFFFD"), err
}

// Pieces implements [token.Side].
func (t *tokenizeTool) Pieces(_ context.Context, ids []uint32) ([][]byte, error) {
	pieces := make([][]byte, len(ids))
	for i, id := range ids {
		piece, ok := t.pieces[id]
		if !ok {
			return nil, fmt.Errorf("position %d: the tool never gave the id %d", i, id)
		}
		pieces[i] = piece
	}
	return pieces, nil
}

// Joined implements [token.Side].
func (*tokenizeTool) Joined() bool { return true }

// Source implements [token.Side].
func (t *tokenizeTool) Source() (kernels.Input, bool) { return t.source, true }
