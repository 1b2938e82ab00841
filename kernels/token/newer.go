package token

// newerCharacters are the characters that Unicode 15.1 and 16.0 added, by
// category, as members of a set. Oniguruma knows them, Go's tables of Unicode 15
// do not. (U+1171E, which moved from Mn to Mc, is the one character that is in
// another category in the older version.)
//
// Origin: the categories of the Unicode Character Database 16.0, taken from the
// difference between the library (tokenizers 0.23.3) and Go 1.26 over all code points.
var newerCharacters = func() map[string]string {
	m := map[string]string{
		"Lu": `\x{1C89}\x{A7CB}-\x{A7CC}\x{A7DA}\x{A7DC}\x{10D50}-\x{10D65}`,
		"Ll": `\x{1C8A}\x{A7CD}\x{A7DB}\x{10D70}-\x{10D85}`,
		"Lm": `\x{10D4E}\x{10D6F}\x{16D40}-\x{16D42}\x{16D6B}-\x{16D6C}`,
		"Lo": `\x{105C0}-\x{105F3}\x{10D4A}-\x{10D4D}\x{10D4F}\x{10EC2}-\x{10EC4}\x{11380}-\x{11389}\x{1138B}\x{1138E}\x{11390}-\x{113B5}` +
			`\x{113B7}\x{113D1}\x{113D3}\x{11BC0}-\x{11BE0}\x{13460}-\x{143FA}\x{16100}-\x{1611D}\x{16D43}-\x{16D6A}\x{18CFF}` +
			`\x{1E5D0}-\x{1E5ED}\x{1E5F0}\x{2EBF0}-\x{2EE5D}`,
		"Mn": `\x{897}\x{10D69}-\x{10D6D}\x{10EFC}\x{113BB}-\x{113C0}\x{113CE}\x{113D0}\x{113D2}\x{113E1}-\x{113E2}\x{11F5A}\x{1611E}-\x{16129}` +
			`\x{1612D}-\x{1612F}\x{1E5EE}-\x{1E5EF}`,
		"Mc": `\x{113B8}-\x{113BA}\x{113C2}\x{113C5}\x{113C7}-\x{113CA}\x{113CC}-\x{113CD}\x{113CF}\x{1171E}\x{1612A}-\x{1612C}`,
		"Nd": `\x{10D40}-\x{10D49}\x{116D0}-\x{116E3}\x{11BF0}-\x{11BF9}\x{16130}-\x{16139}\x{16D70}-\x{16D79}\x{1CCF0}-\x{1CCF9}` +
			`\x{1E5F1}-\x{1E5FA}`,
		"Pd": `\x{10D6E}`,
		"Po": `\x{1B4E}-\x{1B4F}\x{1B7F}\x{113D4}-\x{113D5}\x{113D7}-\x{113D8}\x{11BE1}\x{16D6D}-\x{16D6F}\x{1E5FF}`,
		"Sm": `\x{10D8E}-\x{10D8F}`,
		"So": `\x{2427}-\x{2429}\x{2FFC}-\x{2FFF}\x{31E4}-\x{31E5}\x{31EF}\x{1CC00}-\x{1CCEF}\x{1CD00}-\x{1CEB3}\x{1F8B2}-\x{1F8BB}` +
			`\x{1F8C0}-\x{1F8C1}\x{1FA89}\x{1FA8F}\x{1FABE}\x{1FAC6}\x{1FADC}\x{1FADF}\x{1FAE9}\x{1FBCB}-\x{1FBEF}`,
	}
	for _, general := range []string{"L", "M", "N", "P", "S"} {
		for name, members := range m {
			if len(name) == 2 && name[:1] == general {
				m[general] += members
			}
		}
	}
	return m
}()
