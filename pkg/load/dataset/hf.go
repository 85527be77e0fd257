package dataset

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/pyrand"
	"github.com/profllm/profllm/pkg/regular"
)

// A hfSet is a data set of Hugging Face that vLLM knows and that is plain text.
type hfSet struct {
	subset, split string // where vLLM looks if it is not told
	output        int    // tokens to ask for; 0 is the length of the recorded answer
	template      bool   // prompts are put into the model's chat template
	by            filter // of sets with recorded answers
	read          func(pyjson.Value) (hfEntry, error)
}

// A hfEntry is one entry of a set. skip says that vLLM leaves it out.
type hfEntry struct {
	turn
	system string // message before the prompt
	skip   bool
}

const bfclName = "gorilla-llm/Berkeley-Function-Calling-Leaderboard"

func hfSets() map[string]hfSet {
	conversations := filter{mostPrompt, mostTotal, true}
	maths := hfSet{split: "train", by: filter{2048, 32000, true}, read: members("problem", "solution")}
	exams := hfSet{split: "train", template: true, by: filter{mostPrompt, mostTotal, false}, read: readExam}
	return map[string]hfSet{
		"Aeala/ShareGPT_Vicuna_unfiltered": {split: "train", by: conversations, read: readTurn},
		"likaixin/InstructCoder":           {split: "train", output: 200, template: true, read: readInstruction},
		"philschmid/mt-bench":              {split: "train", output: 256, template: true, read: readFirstTurn},
		"openai/openai_humaneval":          {split: "test", output: 256, template: true, read: members("prompt")},
		"openai/gsm8k": {subset: "main", split: "test", output: 256, template: true,
			read: members("question")},
		"AI-MO/aimo-validation-aime": maths, "AI-MO/NuminaMath-1.5": maths, "AI-MO/NuminaMath-CoT": maths,
		"mgoin/mlperf-inference-llama2-data": exams, "mgoin/mlperf-inference-llama3.1-data": exams,
		bfclName: {output: 512},
	}
}

// unread are the sets of vLLM that this client does not read, and why.
var unread = map[string]string{
	"zed-industries/zeta":  "its prompts are a long text of vLLM's",
	"vdaita/edit_5k_char":  "its prompts are a long text of vLLM's",
	"vdaita/edit_10k_char": "its prompts are a long text of vLLM's",
	"yale-nlp/MMVU":        "it has videos", "lmms-lab/LLaVA-OneVision-Data": "it has pictures",
	"lmarena-ai/VisionArena-Chat": "it has pictures", "lmarena-ai/vision-arena-bench-v0.1": "it has pictures",
	"Lin-Chen/MMStar": "it has pictures", "openslr/librispeech_asr": "it has sound",
	"facebook/voxpopuli": "it has sound", "LIUM/tedlium": "it has sound",
	"edinburghcstr/ami": "it has sound", "speechcolab/gigaspeech": "it has sound",
	"kensho/spgispeech": "it has sound", "ArtificialAnalysis/Earnings22-Cleaned-AA": "it has sound",
	"D4nt3/esb-datasets-earnings22-validation-tiny-filtered": "it has sound",
}

// hfName is the name of the set at Hugging Face.
func (f *Flags) hfName() string {
	if f.HFName != "" {
		return f.HFName
	}
	return f.DatasetPath
}

func (f *Flags) bfcl() bool { return f.DatasetName == "hf" && f.hfName() == bfclName }

// hfCheck refuses a set that is not read.
func hfCheck(f *Flags) error {
	name := f.hfName()
	if why, ok := unread[name]; ok {
		return fmt.Errorf("the data set %s is not read: %s", name, why)
	}
	known := hfSets()
	if _, ok := known[name]; !ok {
		names := make([]string, 0, len(known))
		for n := range known {
			names = append(names, n)
		}
		slices.Sort(names)
		return fmt.Errorf("--hf-name %q: of Hugging Face's sets, these are read: %s; --dataset-path is a local copy, "+
			"--hf-name says of which", name, strings.Join(names, ", "))
	}
	return nil
}

// huggingFace makes the requests of a local copy of a set of Hugging Face.
func (s *Source) huggingFace(d drawing) ([]Request, error) {
	if err := hfCheck(s.Flags); err != nil {
		return nil, err
	}
	if s.bfcl() {
		return s.functionCalls(d)
	}
	set := hfSets()[s.hfName()]
	files, err := hfFiles(d.path, s.HFSubset, set.subset, cmp.Or(s.HFSplit, set.split))
	if err != nil {
		return nil, err
	}
	var entries []hfEntry
	for _, file := range files {
		if err := eachEntry(file, func(v pyjson.Value) error {
			e, err := set.read(v)
			entries = append(entries, e)
			return err
		}); err != nil {
			return nil, err
		}
	}
	s.permute(entries)
	entries = slices.DeleteFunc(entries, func(e hfEntry) bool { return e.skip })
	requests, err := s.fromEntries(d, set, entries)
	if err != nil {
		return nil, err
	}
	return s.more(requests, s.NumPrompts, s.Seed), nil
}

// permute brings entries into the order that Hugging Face's library gives a set of up to 1000
// entries. Larger ones go through a buffer there, and get a random order of another kind.
func (s *Source) permute(entries []hfEntry) {
	if !s.DisableShuffle {
		pyrand.NewGenerator(uint64(s.Seed)).Shuffle(len(entries), func(i, j int) {
			entries[i], entries[j] = entries[j], entries[i]
		})
	}
}

// fromEntries makes requests of entries, in their order.
func (s *Source) fromEntries(d drawing, set hfSet, entries []hfEntry) ([]Request, error) {
	output := s.hfOutput()
	switch {
	case set.output != 0:
		return s.prompts(d.ctx, entries[:min(len(entries), s.NumPrompts)], or(output, set.output))
	case set.template:
		return s.exams(d, entries, output, set.by)
	}
	turns := make([]turn, len(entries))
	for i, e := range entries {
		turns[i] = e.turn
	}
	return s.conversations(d, turns, output, set.by)
}

// prompts makes a request of each entry.
func (s *Source) prompts(ctx context.Context, entries []hfEntry, output int) ([]Request, error) {
	requests := make([]Request, len(entries))
	texts, chats := make([]string, len(entries)), make([]Messages, len(entries))
	for i, e := range entries {
		texts[i], chats[i] = e.prompt, e.chat()
		requests[i] = Request{Input: Unknown, Output: output}
	}
	return requests, s.prompted(ctx, requests, chats, texts)
}

// chat returns the messages of an entry.
func (e hfEntry) chat() Messages {
	if e.system == "" {
		return UserMessage(e.prompt)
	}
	return Messages(appendJSON(nil, []map[string]string{
		{"role": "system", "content": e.system}, {"role": "user", "content": e.prompt},
	}))
}

// exams makes requests of questions with a system message, of which those pass whose templated
// prompt and answer have a fitting length.
func (s *Source) exams(d drawing, entries []hfEntry, output *int, by filter) ([]Request, error) {
	const why = "count tokens, by which requests are chosen and answers sized"
	around, err := s.around(d.ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", why, err)
	}
	var requests []Request
	for start := 0; start < len(entries) && len(requests) < s.NumPrompts; start += batch {
		part := entries[start:min(start+batch, len(entries))]
		chats, replies := make([]Messages, len(part)), make([]string, len(part))
		for i, e := range part {
			chats[i], replies[i] = e.chat(), e.answer
		}
		ids, err := s.Tokenizer.Chat(d.ctx, chats, s.Kwargs)
		if err != nil {
			return nil, fmt.Errorf("apply the model's chat template: %w", err)
		}
		answers, err := s.counts(d.ctx, replies, false, why)
		if err != nil {
			return nil, err
		}
		for i := range part {
			want := or(output, answers[i])
			if len(requests) == s.NumPrompts || !fits(len(ids[i])+around, want, by.mostPrompt, by.mostTotal, false) {
				continue
			}
			r := Request{Prompt: IDs(ids[i]), Input: len(ids[i]), Output: want}
			if s.Chat {
				r.Prompt = chats[i]
			}
			requests = append(requests, r)
		}
	}
	return requests, nil
}

// around is how many tokens the tokenizer puts around a prompt. vLLM counts those of templated
// prompts too.
func (s *Source) around(ctx context.Context) (int, error) {
	with, err := s.encode(ctx, []string{"a"}, true)
	if err != nil {
		return 0, err
	}
	without, err := s.encode(ctx, []string{"a"}, false)
	if err != nil {
		return 0, err
	}
	return len(with[0]) - len(without[0]), nil
}

// members reads an entry whose prompt, and answer, are members of it.
func members(prompt string, answer ...string) func(pyjson.Value) (hfEntry, error) {
	return func(v pyjson.Value) (e hfEntry, err error) {
		if e.prompt, err = text(v, prompt); err == nil && len(answer) > 0 {
			e.answer, err = text(v, answer[0])
		}
		return e, err
	}
}

func readTurn(v pyjson.Value) (e hfEntry, err error) {
	var ok bool
	e.turn, ok, err = firstTurn(v)
	e.skip = !ok
	return e, err
}

func readFirstTurn(v pyjson.Value) (hfEntry, error) {
	turns := v.At("turns")
	if turns.Kind != pyjson.List || len(turns.Items) == 0 || turns.Items[0].Kind != pyjson.Text {
		return hfEntry{}, fmt.Errorf("the entry has no list of strings %q", "turns")
	}
	return hfEntry{turn: turn{prompt: turns.Items[0].Str}}, nil
}

func readExam(v pyjson.Value) (e hfEntry, err error) {
	if e.system, err = text(v, "system_prompt"); err != nil {
		return e, err
	}
	if e.prompt, err = text(v, "question"); err != nil {
		return e, err
	}
	e.answer, err = text(v, "output")
	return e, err
}

// codeOnly is what vLLM asks for behind InstructCoder's instructions.
const codeOnly = "Just output the code, do not include any explanation."

func readInstruction(v pyjson.Value) (e hfEntry, err error) {
	input, err := text(v, "input")
	if err != nil {
		return e, err
	}
	instruction, err := text(v, "instruction")
	e.prompt = input + "\n\n" + instruction + " " + codeOnly
	return e, err
}

// eachEntry calls take with each entry of a file of JSON lines, or of one JSON list.
func eachEntry(path string, take func(pyjson.Value) error) error {
	f, err := regular.Open(path)
	if err != nil {
		return unreadable(path, err)
	}
	defer f.Close()
	in := bufio.NewReader(f)
	if !startsList(in) {
		return eachObject(path, take)
	}
	return eachItem(path, in, take)
}

// startsList reports whether a file begins with a list.
func startsList(in *bufio.Reader) bool {
	head, _ := in.Peek(256) // a short file has fewer bytes
	return strings.HasPrefix(strings.TrimLeft(string(head), " \t\r\n\ufeff"), "[")
}

// hfFiles returns the files of a local copy that hold a split, in order. A subset that nobody asked
// for is the one that vLLM takes by itself: the copy may be of it alone, and not name it.
func hfFiles(path, asked, subset, split string) ([]string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: --dataset-path is a local copy of the set: a file of JSON lines, or a folder with "+
			"some", err)
	}
	if !st.IsDir() {
		return []string{path}, nil
	}
	var files, parquet []string
	err = filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		switch filepath.Ext(name) {
		case ".jsonl", ".json":
			files = append(files, name)
		case ".parquet":
			parquet = append(parquet, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if of := narrow(path, files, cmp.Or(asked, subset)); len(of) > 0 {
		files = of
	} else if asked != "" && len(files) > 0 {
		return nil, fmt.Errorf("%s has no file with %q in its name (--hf-subset)", path, asked)
	}
	if named := narrow(path, files, split); len(named) > 0 {
		files = named
	}
	switch {
	case len(files) == 0 && len(parquet) > 0:
		return nil, fmt.Errorf("%s has Parquet files, which this client does not read: turn them into JSON lines, "+
			"with pandas: pandas.read_parquet(%q).to_json(%q, orient=\"records\", lines=True)", path, parquet[0],
			strings.TrimSuffix(parquet[0], ".parquet")+".jsonl")
	case len(files) == 0:
		return nil, fmt.Errorf("%s has no file of JSON lines (.jsonl or .json)", path)
	case len(files) > 1 && len(narrow(path, files, split)) == 0:
		return nil, fmt.Errorf("%s has %d files, and no name has %q in it: --hf-split names one, or --dataset-path",
			path, len(files), split)
	}
	return files, nil
}

// narrow returns the files below a folder in whose names a word occurs.
func narrow(root string, files []string, word string) []string {
	if word == "" {
		return files
	}
	var out []string
	between := func(r rune) bool { return strings.ContainsRune("/-_. ", r) }
	for _, f := range files {
		rel, err := filepath.Rel(root, f)
		if err == nil && slices.Contains(strings.FieldsFunc(rel, between), word) {
			out = append(out, f)
		}
	}
	return out
}

var errNoChat = errors.New("it needs --backend openai-chat, because each request has tools of its own")
