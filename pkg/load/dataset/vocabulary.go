package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/regular"
)

// A Vocabulary is what the tokenizer.json of a model says about its tokens. It can neither encode
// nor decode.
type Vocabulary struct {
	Size    int          // tokens without those that were added to the model's own
	Around  int          // special tokens that are put around a prompt
	ids     []int        // all, in order
	special map[int]bool // ids that stand for no text
	marks   map[int]bool // special ids that were added: chats, pictures and the like begin and end with them
}

// Sizes of the largest files that are read.
const (
	tokenizerLimit = 256 << 20
	configLimit    = 4 << 20
)

// ReadVocabulary reads the tokenizer.json and the tokenizer_config.json of a folder.
func ReadVocabulary(folder string) (*Vocabulary, error) {
	raw, err := regular.ReadAtMost(filepath.Join(folder, "tokenizer.json"), tokenizerLimit)
	if err != nil {
		return nil, err
	}
	config, err := regular.ReadAtMost(filepath.Join(folder, "tokenizer_config.json"), configLimit)
	if err != nil {
		config = []byte("{}") // its absence means that no token is special by it
	}
	v, err := parseVocabulary(raw, config)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(folder, "tokenizer.json"), err)
	}
	return v, nil
}

// tokenizerFile is the part of a tokenizer.json that matters here.
type tokenizerFile struct {
	AddedTokens []struct {
		ID      int    `json:"id"`
		Content string `json:"content"`
		Special bool   `json:"special"`
	} `json:"added_tokens"`
	PostProcessor processor `json:"post_processor"`
	Model         struct {
		Vocab json.RawMessage `json:"vocab"`
	} `json:"model"`
}

// A processor puts special tokens around a prompt.
type processor struct {
	Type   string `json:"type"`
	Single []struct {
		SpecialToken *struct {
			ID string `json:"id"`
		} `json:"SpecialToken"`
	} `json:"single"`
	SpecialTokens map[string]struct {
		IDs []int `json:"ids"`
	} `json:"special_tokens"`
	Processors []processor `json:"processors"`
}

// around is how many tokens a processor adds to one prompt.
func (p *processor) around() (n int) {
	switch p.Type {
	case "BertProcessing", "RobertaProcessing":
		return 2
	case "TemplateProcessing":
		for _, piece := range p.Single {
			if piece.SpecialToken != nil {
				n += max(len(p.SpecialTokens[piece.SpecialToken.ID].IDs), 1)
			}
		}
	case "Sequence":
		for i := range p.Processors {
			n += p.Processors[i].around()
		}
	}
	return n
}

func parseVocabulary(raw, config []byte) (*Vocabulary, error) {
	var file tokenizerFile
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, err
	}
	byText, err := vocabularyOf(file.Model.Vocab)
	if err != nil {
		return nil, err
	}
	v := &Vocabulary{Size: len(byText), Around: file.PostProcessor.around(), special: map[int]bool{},
		marks: map[int]bool{}}
	all := map[int]bool{}
	for _, id := range byText {
		all[id] = true
	}
	for _, t := range file.AddedTokens {
		byText[t.Content] = t.ID
		all[t.ID] = true
		if t.Special {
			v.marks[t.ID] = true
		}
	}
	for id := range all {
		if id < 0 {
			return nil, fmt.Errorf("a token has the id %d", id)
		}
	}
	v.ids = slices.Sorted(maps.Keys(all))
	for _, text := range specialTexts(config) {
		if id, ok := byText[text]; ok {
			v.special[id] = true
		}
	}
	if len(v.plain()) == 0 || len(v.allowed()) == 0 {
		return nil, errors.New("all its tokens are special")
	}
	return v, nil
}

// vocabularyOf reads the tokens of a model: an object of ids by text, or a list whose elements begin
// with the text.
func vocabularyOf(raw json.RawMessage) (map[string]int, error) {
	byText := map[string]int{}
	if err := json.Unmarshal(raw, &byText); err == nil && len(byText) > 0 {
		return byText, nil
	}
	var list [][]json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 {
		return nil, errors.New("model.vocab holds no tokens")
	}
	byText = map[string]int{}
	for id, item := range list {
		var text string
		if len(item) == 0 || json.Unmarshal(item[0], &text) != nil {
			return nil, fmt.Errorf("element %d of model.vocab has no text", id)
		}
		byText[text] = id
	}
	return byText, nil
}

// specialTexts are the texts that a tokenizer_config.json calls special: the values of its keys …_token
// and of its lists of further ones.
func specialTexts(config []byte) []string {
	var members map[string]json.RawMessage
	if json.Unmarshal(config, &members) != nil {
		return nil
	}
	var out []string
	add := func(raw json.RawMessage) {
		var text string
		var token struct{ Content string }
		if json.Unmarshal(raw, &text) == nil {
			out = append(out, text)
		} else if json.Unmarshal(raw, &token) == nil && token.Content != "" {
			out = append(out, token.Content)
		}
	}
	for key, raw := range members {
		switch {
		case key == "additional_special_tokens" || key == "extra_special_tokens":
			var list []json.RawMessage
			var named map[string]json.RawMessage
			if json.Unmarshal(raw, &list) == nil {
				for _, item := range list {
					add(item)
				}
			} else if json.Unmarshal(raw, &named) == nil {
				for _, item := range named {
					add(item)
				}
			}
		case strings.HasSuffix(key, "_token"):
			add(raw)
		}
	}
	return out
}

// plain returns the ids of all tokens that are not special, in order.
func (v *Vocabulary) plain() []int {
	return slices.DeleteFunc(slices.Clone(v.ids), func(id int) bool { return v.special[id] })
}

// allowed returns the ids that random prompts are made of: those below Size that are not special.
func (v *Vocabulary) allowed() []int {
	ids := make([]int, 0, v.Size)
	for id := range v.Size {
		if !v.special[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// unmarked returns the ids that texts beside pictures are made of: the allowed ones that mark nothing.
func (v *Vocabulary) unmarked() []int {
	return slices.DeleteFunc(v.allowed(), func(id int) bool { return v.marks[id] })
}
