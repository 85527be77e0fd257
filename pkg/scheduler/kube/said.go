package kube

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"regexp"
	"strconv"
	"time"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
)

// mostArchive bounds the archive that a Job may print, packed. A kubelet keeps 10 MiB of a log by
// default, so that one that large needs a cluster that was told to keep more.
const mostArchive = 512 << 20

// mostLine bounds a line of a log; what is longer is cut.
const mostLine = 1 << 20

// said is what the log of a Job's container says.
type said struct {
	phases  []phase
	began   time.Time // of the first line
	ended   time.Time // of the last line
	archive bool      // the archive is whole
	fault   error     // why it is not; nil also if there is none
	faultAt int       // the line that shows it, 1 for the first
}

// phase is the end of one of the steps of the Job.
type phase struct {
	name string
	code int
	at   time.Time
}

// The faults of an archive, by which a run that lost its results is told from one that has none.
var (
	errNoArchive = errors.New("the log holds no archive of results")
	errCut       = errors.New("the log is cut within the archive of results")
	errHead      = errors.New("the beginning of the archive of results is missing from the log")
	errDigest    = errors.New("the archive of results is not what the Job packed")
)

var (
	phaseLine   = lazyregexp.New(`^` + regexp.QuoteMeta(plan.PhaseEnded) + `([A-Za-z0-9][A-Za-z0-9._/-]{0,127}) exit (\d{1,3})$`)
	archiveLine = lazyregexp.New(`^` + regexp.QuoteMeta(plan.ArchiveBegins) + `(\d{1,10}) sha256:([0-9a-f]{64})$`)
)

// reader reads the log of a Job's container.
type reader struct {
	said
	plain   io.Writer // what is for people: the log without times and without the archive
	archive io.Writer // the archive, unpacked from base64
	n       int       // line

	inside  bool
	want    int64
	digest  string
	got     int64
	sum     hash.Hash
	pending []byte // base64 characters that do not make a group of four yet
}

// readLog reads the log of a Job's container, with a time before each line as kubectl logs
// --timestamps has it, or without. The lines go to plain, and the archive between its markers to
// archive. Only what cannot be read or written is an error.
func readLog(r io.Reader, plain, archive io.Writer) (said, error) {
	x := &reader{plain: plain, archive: archive}
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := boundedLine(in)
		if len(line) > 0 {
			x.n++
			if err := x.line(line); err != nil {
				return x.said, err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return x.said, err
		}
	}
	if x.inside {
		x.fail(fmt.Errorf("%w: %d of %d bytes are there, and no end marker; the node's kubelet rotates logs (containerLogMaxSize), or the container was killed",
			errCut, x.got, x.want))
	}
	if !x.said.archive && x.fault == nil {
		x.fail(errNoArchive)
	}
	return x.said, nil
}

// boundedLine reads a line without its end; of a long one, the beginning.
func boundedLine(in *bufio.Reader) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(line) < mostLine {
			line = append(line, part[:min(len(part), mostLine-len(line))]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return line, err
	}
}

// line takes the next line.
func (x *reader) line(line []byte) error {
	text := bytes.TrimRight(line, "\r\n")
	if stamp, rest, ok := bytes.Cut(text, []byte(" ")); ok || len(stamp) > 0 {
		if at, err := time.Parse(time.RFC3339Nano, string(stamp)); err == nil {
			text = rest
			if x.began.IsZero() {
				x.began = at
			}
			x.ended = at
		}
	}
	switch {
	case string(text) == plan.ArchiveEnds:
		x.end()
	case x.inside:
		return x.take(text)
	case bytes.HasPrefix(text, []byte(plan.ArchiveBegins)):
		x.begin(string(text))
	default:
		if m := phaseLine.FindSubmatch(text); m != nil {
			code, _ := strconv.Atoi(string(m[2]))
			x.phases = append(x.phases, phase{string(m[1]), code, x.ended})
		}
		_, err := x.plain.Write(append(bytes.Clone(text), '\n'))
		return err
	}
	_, err := x.plain.Write(append(bytes.Clone(text), '\n'))
	return err
}

func (x *reader) fail(err error) {
	if x.fault == nil {
		x.fault, x.faultAt = err, x.n
	}
}

func (x *reader) begin(text string) {
	m := archiveLine.FindStringSubmatch(text)
	switch {
	case m == nil:
		x.fail(fmt.Errorf("line %d: %q is no marker of an archive", x.n, text[:min(len(text), 100)]))
		return
	case x.said.archive:
		x.fail(fmt.Errorf("line %d: there is a second archive", x.n))
		x.said.archive = false
	}
	x.want, _ = strconv.ParseInt(m[1], 10, 64)
	if x.want > mostArchive {
		x.fail(fmt.Errorf("line %d: the archive has %d bytes, and at most %d are read", x.n, x.want, int64(mostArchive)))
		return
	}
	x.inside, x.digest, x.got, x.sum, x.pending = true, m[2], 0, sha256.New(), nil
}

// take takes a line between the markers.
func (x *reader) take(text []byte) error {
	x.pending = append(x.pending, bytes.TrimSpace(text)...)
	whole := len(x.pending) / 4 * 4
	data := make([]byte, base64.StdEncoding.DecodedLen(whole))
	n, err := base64.StdEncoding.Decode(data, x.pending[:whole])
	x.pending = append([]byte(nil), x.pending[whole:]...)
	if err != nil {
		x.fail(fmt.Errorf("line %d: between the markers of the archive is something else than base64: %q", x.n,
			text[:min(len(text), 60)]))
	}
	if x.got += int64(n); x.got > x.want {
		x.fail(fmt.Errorf("line %d: %w: it has more than the %d bytes of its marker", x.n, errDigest, x.want))
	}
	if x.fault != nil {
		return nil
	}
	x.sum.Write(data[:n])
	_, err = x.archive.Write(data[:n])
	return err
}

func (x *reader) end() {
	if !x.inside {
		if !x.said.archive && x.fault == nil {
			x.fail(fmt.Errorf("line %d: %w: the node's kubelet rotates logs (containerLogMaxSize)", x.n, errHead))
		}
		return
	}
	x.inside = false
	sum := hex.EncodeToString(x.sum.Sum(nil))
	switch {
	case len(x.pending) > 0:
		x.fail(fmt.Errorf("line %d: %w: its base64 is incomplete", x.n, errDigest))
	case x.got != x.want:
		x.fail(fmt.Errorf("line %d: %w: it has %d bytes, and its marker says %d", x.n, errDigest, x.got, x.want))
	case sum != x.digest:
		x.fail(fmt.Errorf("line %d: %w: its sha256 is %s…, and its marker says %s…", x.n, errDigest, sum[:12], x.digest[:12]))
	}
	x.said.archive = x.fault == nil
}

// first is the first phase that failed, nil if none did.
func (s *said) first() *phase {
	for i := range s.phases {
		if s.phases[i].code != 0 {
			return &s.phases[i]
		}
	}
	return nil
}

// of returns the phase of a name, nil if it has not ended.
func (s *said) of(name string) *phase {
	for i := range s.phases {
		if s.phases[i].name == name {
			return &s.phases[i]
		}
	}
	return nil
}

// word is the fault as one word, for people and for tables of causes.
func (s *said) word() string {
	switch {
	case s.fault == nil:
		return ""
	case errors.Is(s.fault, errNoArchive):
		return "results-missing"
	case errors.Is(s.fault, errCut), errors.Is(s.fault, errHead):
		return "results-cut"
	}
	return "results-damaged"
}
