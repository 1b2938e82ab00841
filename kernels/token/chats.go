package token

import (
	"math/rand/v2"
	"strings"
)

// Messages of every role, as templates put them between their special tokens.
var messages = [][2]string{
	{"system", "You are a careful assistant."},
	{"user", "What is 17 + 25?\n\n```py\nprint(17+25)\n```"},
	{"assistant", "<think>\nadd\n</think>\n\n42"},
	{"user", "小明有3个苹果。 \t谢谢！"},
	{"tool", "{\"name\": \"add\", \"content\": [1, 2, \"é\"]}"},
	{"assistant", ""},
}

// forms are published ways to write a message; {role} and {words} stand for those of a message.
// In a vocabulary without their tokens they are text like any other.
var forms = []string{
	"<|im_start|>{role}\n{words}<|im_end|>\n",
	"<|start_header_id|>{role}<|end_header_id|>\n\n{words}<|eot_id|>",
	"<start_of_turn>{role}\n{words}<end_of_turn>\n",
	"<|{role}|>\n{words}<|end|>\n",
	"<|{role}|>{words}<|end|>",
	"[INST] {words} [/INST]",
	"<<SYS>>\n{words}\n<</SYS>>\n\n",
	"<|start|>{role}<|message|>{words}<|end|>",
	"<｜{role}｜>{words}<｜end▁of▁sentence｜>",
}

// chats are conversations of several lengths in every form, and in forms made of
// the vocabulary's own special tokens: one before the role, one after the words.
func chats(e Encoder) []string {
	all := append([]string{}, forms...)
	var special []string
	for id := range uint32(e.Size()) {
		if s, _ := e.Token(id); e.IsSpecial(id) && len(special) < 6 {
			special = append(special, s)
		}
	}
	for i, s := range special {
		end := special[(i+1)%len(special)]
		all = append(all, s+"{role}\n{words}"+end+"\n", s+"{words}"+end)
	}
	var texts []string
	for _, form := range all {
		var talk strings.Builder
		for i, m := range messages {
			talk.WriteString(strings.NewReplacer("{role}", m[0], "{words}", m[1]).Replace(form))
			if i == 0 || i == 1 || i == len(messages)-1 {
				texts = append(texts, talk.String())
			}
		}
	}
	return texts
}

// runs are long repetitions, which queues of merges and expressions handle in their own ways.
func runs() []string {
	var texts []string
	for _, s := range []string{" ", "\n", "\t", "a", "aa b", "ab", "0", "12", "=", "-", "中", "é", "🙂", "\u200d", "\r\n", "_"} {
		for _, n := range []int{3, 17, 64, 257} {
			texts = append(texts, strings.Repeat(s, n))
		}
	}
	return texts
}

// scripts are the characters that texts are mixed of.
var scripts = []string{
	"abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", "    ", " \n\t\r", ".,;:!?'\"()[]{}<>/\\|@#$%^&*-_=+`~",
	"你好世界数字模型语言等于多少", "あいうえおカタカナ", "한국어말", "абвгдежзийклмн", "αβγδεζηθ", "אבגדה", "ابجدهوز", "कखगघ", "กขคง",
	"éèüñçøåß", "🙂👍🏽🚀❤", "\u0301\u0308\u0323", "\u00a0\u2009\u3000\u200b", "½²Ⅳ①", "𝒜𝔹𠮷",
}

const mixedTexts = 120

// mixed draws texts of 1 to 40 characters, from one to four scripts each.
func mixed(seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	texts := make([]string, mixedTexts)
	for i := range texts {
		var from []rune
		for range 1 + r.IntN(4) {
			from = append(from, []rune(scripts[r.IntN(len(scripts))])...)
		}
		text := make([]rune, 1+r.IntN(40))
		for k := range text {
			text[k] = from[r.IntN(len(from))]
		}
		texts[i] = string(text)
	}
	return texts
}
