package result

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
)

// Answers says for each question of an evaluation whether its answer was right, so that
// two evaluations of the same questions can be compared question by question.
type Answers struct {
	Questions int    `json:"questions"`
	Digest    string `json:"digest" jsonschema:"digest of the questions, in order: equal digests mean equal questions"`
	Right     string `json:"right" jsonschema:"base64 of one bit per question, the first in the lowest bit of the first byte; 1: right"`
}

// NewAnswers packs the answers to questions, which are known by any text that is
// the same wherever the question is, such as a hash.
func NewAnswers(questions []string, right []bool) (*Answers, error) {
	if len(questions) != len(right) {
		return nil, fmt.Errorf("%d questions, %d answers", len(questions), len(right))
	}
	sum := sha256.New()
	bits := make([]byte, (len(right)+7)/8)
	for i, q := range questions {
		fmt.Fprintf(sum, "%d:%s\n", len(q), q)
		if right[i] {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return &Answers{Questions: len(questions), Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil)),
		Right: base64.StdEncoding.EncodeToString(bits)}, nil
}

// Against counts the questions that only a got right and those that only b did; ok
// is false unless both were asked the same questions.
func (a *Answers) Against(b *Answers) (onlyA, onlyB int, ok bool) {
	if a == nil || b == nil || a.Digest != b.Digest || a.Questions != b.Questions {
		return 0, 0, false
	}
	x, errA := a.bits()
	y, errB := b.bits()
	if errA != nil || errB != nil {
		return 0, 0, false
	}
	for i := range a.Questions {
		bit := byte(1) << (i % 8)
		switch in, out := x[i/8]&bit != 0, y[i/8]&bit != 0; {
		case in && !out:
			onlyA++
		case out && !in:
			onlyB++
		}
	}
	return onlyA, onlyB, true
}

func (a *Answers) bits() ([]byte, error) {
	bits, err := base64.StdEncoding.DecodeString(a.Right)
	if err == nil && len(bits) != (a.Questions+7)/8 {
		err = fmt.Errorf("%d bytes of answers to %d questions", len(bits), a.Questions)
	}
	return bits, err
}
