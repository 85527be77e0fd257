package eval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/regular"
)

// Schema is the version of a file of answers.
const Schema = "profllm.answers/1"

// A Book is the file of the answers so far: a head, then a line for each answer and each start.
type Book struct {
	Head
	Answers map[int]Answer // by the place of their question, from 0; the last of each

	mu      sync.Mutex
	file    *os.File
	begun   time.Time
	synced  time.Time
	now     func() time.Time
	session int
	spans   map[int]span // session → when it asked
}

// span is the time from the start of a session until its last answer.
type span struct {
	begun time.Time // zero: the file is of a release that did not say
	last  float64   // s
}

// Head says what the answers are to.
type Head struct {
	Schema   string   `json:"schema"`
	Digest   string   `json:"questions_digest"`
	Shard    string   `json:"shard"`
	Settings Settings `json:"settings"`
}

// Answer is a line of the file: what came of one request.
type Answer struct {
	Question int     `json:"question"` // its place in the test file, from 0
	ID       string  `json:"id"`       // digest of its text
	Label    string  `json:"label"`    // the right number
	Number   *string `json:"number"`   // that was answered; null: none, or the request failed
	Right    bool    `json:"right"`
	Tokens   int     `json:"output_tokens"`
	Text     string  `json:"text"`
	Error    string  `json:"error,omitempty"` // of a request that failed
	Session  int     `json:"session"`         // which of the commands asked, from 1
	At       float64 `json:"at_s"`            // since that command began to ask

	Began time.Time `json:"began,omitzero"` // when it did
}

// ErrOther is a file of answers to other questions, or with other settings.
var ErrOther = errors.New("the answers are of another evaluation")

// OpenBook opens the file of answers to a set, or begins it. The file may not be open in another
// command.
func OpenBook(path string, set *Set, part Shard, now func() time.Time) (*Book, error) {
	b := &Book{Head: Head{Schema, set.Digest, part.String(), set.Settings}, now: now}
	before, err := ReadBook(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return b, b.begin(path, 0)
	case errors.Is(err, io.ErrUnexpectedEOF): // cut short in the head
		if err := checkHead(path); err != nil {
			return nil, err
		}
		return b, b.begin(path, 0)
	case err != nil:
		return nil, err
	case before.Settings.Served != b.Settings.Served:
		return nil, fmt.Errorf("%s: %w: its model is %q, not %q", path, ErrOther, before.Settings.Served, b.Settings.Served)
	case before.Digest != b.Digest || before.Shard != b.Shard || !before.Settings.same(b.Settings):
		return nil, fmt.Errorf("%s: %w: its questions, part or settings differ", path, ErrOther)
	}
	before.now = now
	return before, before.begin(path, before.session)
}

// checkHead refuses a file without a whole line that is not the begin of a head: it would be emptied.
func checkHead(path string) error {
	f, err := regular.OpenLarge(path)
	if err != nil {
		return err
	}
	defer f.Close()
	mark := []byte(`{"schema":"` + Schema + `"`)
	begin, err := io.ReadAll(io.LimitReader(f, int64(len(mark))))
	if err == nil && !bytes.HasPrefix(mark, begin) {
		err = fmt.Errorf("%s: %w: it is no file of answers", path, ErrOther)
	}
	return err
}

// same compares settings as they are written.
func (s Settings) same(o Settings) bool {
	a, errA := json.Marshal(s)
	b, errB := json.Marshal(o)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// begin opens the file to append, without what a crash has cut short, and marks a new session.
func (b *Book) begin(path string, sessions int) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	var end int64
	if st, statErr := f.Stat(); statErr != nil || !st.Mode().IsRegular() {
		err = errors.Join(statErr, fmt.Errorf("%s is no regular file", path))
	} else {
		end, err = wholeLines(f)
	}
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	b.file, b.session, b.begun = f, sessions+1, b.now()
	if b.Answers == nil {
		b.Answers, b.spans = map[int]Answer{}, map[int]span{}
	}
	if end == 0 {
		return b.write(b.Head)
	}
	return nil
}

// wholeLines is where the last whole line ends.
func wholeLines(f *os.File) (int64, error) {
	in := bufio.NewReader(f)
	var end int64
	for {
		part, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			n, err := skipLine(in)
			if err != nil {
				return end, ignoreEnd(err)
			}
			end += int64(len(part)) + n
		case err != nil:
			return end, ignoreEnd(err)
		default:
			end += int64(len(part))
		}
	}
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// skipLine reads to the end of a line, and says how long the rest was.
func skipLine(in *bufio.Reader) (int64, error) {
	var n int64
	for {
		part, err := in.ReadSlice('\n')
		n += int64(len(part))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return n, err
		}
	}
}

// syncPause is the longest time for which answers are not on disk: a node that fails may lose them, a
// command that is killed loses none.
const syncPause = time.Second

// write appends a line.
func (b *Book) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := b.file.Write(append(line, '\n')); err != nil {
		return err
	}
	if b.now().Sub(b.synced) < syncPause {
		return nil
	}
	b.synced = b.now()
	return b.file.Sync()
}

// Add keeps an answer.
func (b *Book) Add(a Answer) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.Session, a.At, a.Began = b.session, b.now().Sub(b.begun).Seconds(), b.begun.UTC()
	if err := b.write(a); err != nil {
		return fmt.Errorf("keep the answers: %w", err)
	}
	b.take(a)
	return nil
}

// take counts an answer.
func (b *Book) take(a Answer) {
	b.Answers[a.Question] = a
	s := b.spans[a.Session]
	b.spans[a.Session] = span{a.Began, max(a.At, s.last)}
	b.session = max(b.session, a.Session)
}

// seconds is for how long questions were asked: the time in which several sessions asked counts once.
// A session whose start is not known counts by itself.
func (b *Book) seconds() float64 {
	total := 0.0
	var known []span
	for _, s := range b.spans {
		if s.begun.IsZero() {
			total += s.last
		} else {
			known = append(known, s)
		}
	}
	slices.SortFunc(known, func(a, b span) int { return a.begun.Compare(b.begun) })
	var end time.Time
	for _, s := range known {
		over := s.begun.Add(time.Duration(s.last * float64(time.Second)))
		if s.begun.Before(end) {
			s.begun = end
		}
		if over.After(end) {
			total += over.Sub(s.begun).Seconds()
			end = over
		}
	}
	return total
}

// Close ends the writing.
func (b *Book) Close() error { return errors.Join(b.file.Sync(), b.file.Close()) }

// Open are the places of a set's questions that have no answer yet.
func (b *Book) Open(set *Set, part Shard) []int {
	var list []int
	for i := range set.Items {
		if a, ok := b.Answers[i]; part.has(i) && (!ok || a.Error != "") {
			list = append(list, i)
		}
	}
	return list
}

// ReadBook reads a file of answers.
func ReadBook(path string) (*Book, error) {
	f, err := regular.OpenLarge(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := ParseBook(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// ParseBook reads the lines of a file of answers. A last line that a crash has cut short is left out.
func ParseBook(r io.Reader) (*Book, error) {
	b := &Book{Answers: map[int]Answer{}, spans: map[int]span{}}
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			if n == 1 {
				return nil, fmt.Errorf("no answers: %w", io.ErrUnexpectedEOF)
			}
			return b, nil
		}
		if err == nil {
			err = b.line(n, line)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
}

func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); len(line) > longestLine {
			return nil, fmt.Errorf("longer than %d MiB", longestLine>>20)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// line takes one line.
func (b *Book) line(n int, text []byte) error {
	if n == 1 {
		if err := json.Unmarshal(text, &b.Head); err != nil {
			return err
		}
		if b.Schema != Schema {
			return fmt.Errorf("the form is %q, not %s", b.Schema, Schema)
		}
		return nil
	}
	var a Answer
	if err := json.Unmarshal(text, &a); err != nil {
		return err
	}
	if a.Question < 0 || a.Question >= mostQuestions || a.Session < 0 || !(a.At >= 0) || a.At > longestSession {
		return errors.New("no answer")
	}
	if before, ok := b.Answers[a.Question]; ok && (before.ID != a.ID || before.Label != a.Label) {
		return fmt.Errorf("question %d is another than before", a.Question)
	}
	b.take(a)
	return nil
}

// Merge puts the answers of several parts together, as if one command had asked all. The time of all
// is that in which any of them asked.
func Merge(books []*Book) (*Book, error) {
	all := &Book{Head: books[0].Head, Answers: map[int]Answer{}, spans: map[int]span{}}
	all.Shard = Shard{}.String()
	for _, b := range books {
		if b.Digest != all.Digest || !reflect.DeepEqual(b.Settings, all.Settings) && !b.Settings.same(all.Settings) {
			return nil, fmt.Errorf("parts cannot be merged: %w", ErrOther)
		}
		for i, a := range b.Answers {
			if have, ok := all.Answers[i]; ok && have.Error == "" {
				return nil, fmt.Errorf("question %d is in several parts", i)
			}
			a.Session += all.session
			all.Answers[i] = a
		}
		for n, s := range b.spans {
			all.spans[all.session+n] = s
		}
		all.session += b.session
	}
	return all, nil
}
