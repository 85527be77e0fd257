package engine

import "strings"

// tokenizer is a reversible vocabulary that needs no file. Ids 0 to 255 are bytes, in the order
// of the byte-level BPE alphabet (the visible bytes first, as in GPT-2's encoder.json); then
// three special tokens; then every piece of one to three lower-case letters, with and without a
// space before it. A word of English is about two tokens.
type tokenizer struct {
	bytes bool // use single bytes only, as the model of the recorded answers does
}

const (
	endOfText = 256
	roleUser  = 257
	roleAsst  = 258
	firstWord = 259 // id of the piece "a"

	wordPieces = 26 + 26*26 + 26*26*26 // pieces without a space; as many follow with one
	vocabulary = firstWord + 2*wordPieces
)

var specials = [...]string{"<|endoftext|>", "<|user|>", "<|assistant|>"}

var byteIDs, idBytes = byteOrder()

func byteOrder() (ids [256]int, bytes [256]byte) {
	n := 0
	for _, visible := range []bool{true, false} {
		for b := range 256 {
			if visible == (b >= '!' && b <= '~' || b >= 0xa1 && b != 0xad) {
				ids[b], bytes[n] = n, byte(b)
				n++
			}
		}
	}
	return ids, bytes
}

func (t tokenizer) encode(text string) []int {
	ids := make([]int, 0, len(text)/3+1)
	for len(text) > 0 {
		if i := t.special(text); i >= 0 {
			ids, text = append(ids, endOfText+i), text[len(specials[i]):]
			continue
		}
		n := 0
		if !t.bytes {
			n = pieceLen(text)
		}
		if n == 0 {
			ids, text = append(ids, byteIDs[text[0]]), text[1:]
			continue
		}
		ids, text = append(ids, pieceID(text[:n])), text[n:]
	}
	return ids
}

func (t tokenizer) special(text string) int {
	if text[0] != '<' {
		return -1
	}
	for i, s := range specials {
		if strings.HasPrefix(text, s) {
			return i
		}
	}
	return -1
}

// pieceLen is the length of the word piece text starts with, 0 if there is none.
func pieceLen(text string) int {
	start := 0
	if text[0] == ' ' {
		start = 1
	}
	n := start
	for n < len(text) && n < start+3 && text[n] >= 'a' && text[n] <= 'z' {
		n++
	}
	if n == start {
		return 0
	}
	return n
}

func pieceID(piece string) int {
	id := firstWord
	letters := strings.TrimPrefix(piece, " ")
	if len(letters) < len(piece) {
		id += wordPieces
	}
	place, below, value := 1, 0, 0
	for i := range len(letters) {
		value = value*26 + int(letters[i]-'a')
		below += place // 1, 27, 703: pieces shorter than this one, plus one
		place *= 26
	}
	return id + below - 1 + value
}

// decode returns the text of one token: "" for an end of text, a replacement for an id outside
// the vocabulary.
func (t tokenizer) decode(id int) string {
	switch {
	case id < 0 || id >= vocabulary:
		return "\ufffd"
	case id < endOfText:
		return string(idBytes[id : id+1])
	case id == endOfText:
		return ""
	case id < firstWord:
		return specials[id-endOfText]
	}
	n, prefix := id-firstWord, ""
	if n >= wordPieces {
		n, prefix = n-wordPieces, " "
	}
	length, size := 1, 26
	for n >= size {
		n, length, size = n-size, length+1, size*26
	}
	var letters [3]byte
	for i := length - 1; i >= 0; i-- {
		letters[i], n = byte('a'+n%26), n/26
	}
	return prefix + string(letters[:length])
}

func (t tokenizer) text(ids []int) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(t.decode(id))
	}
	return b.String()
}
