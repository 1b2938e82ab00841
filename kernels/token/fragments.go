package token

import "strings"

// fragments cuts the text at the longest special token wherever it stands,
// then what is left at the next.
func fragments(text string, marked []uint32, tokens []string) []fragment {
	var out []fragment
	if text != "" {
		out = []fragment{{text: text}}
	}
	for _, id := range marked {
		token := tokens[id]
		if !strings.Contains(text, token) {
			continue
		}
		var cut []fragment
		for _, f := range out {
			for !f.token {
				before, after, found := strings.Cut(f.text, token)
				if !found {
					break
				}
				if before != "" {
					cut = append(cut, fragment{text: before})
				}
				cut = append(cut, fragment{token: true, id: id})
				f.text = after
			}
			if f.token || f.text != "" {
				cut = append(cut, f)
			}
		}
		out = cut
	}
	return out
}
