package workers

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/load/sender"
	"github.com/profllm/profllm/pkg/regular"
)

// A meeting is the content of the rendezvous file. Only its owner can read it.
type meeting struct {
	Addresses []string `json:"addresses"` // host:port, of every interface
	Secret    string   `json:"secret"`    // who joins has read the file
	Word      string   `json:"word"`      // from the coordinator to all
}

func (m *meeting) write(file string) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	out := durable.Output{Option: "--rendezvous", Path: file, Kind: "a file in which client processes meet",
		Ours: func(head []byte) bool { return bytes.HasPrefix(head, []byte(`{"addresses":`)) }}
	if err := durable.CheckOutputs(out); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may be open to others
		return err
	}
	return durable.WriteFile(file, raw, 0o600)
}

func readMeeting(file string) (*meeting, error) {
	raw, err := regular.ReadFile(file)
	if err != nil {
		return nil, err
	}
	m := new(meeting)
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// secretBytes is the length of a secret; its text is twice as long.
const secretBytes = 32

func newSecret() string {
	b := make([]byte, secretBytes)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// A hello says who a process is, once both sides know that the other one knows the secret.
type hello struct {
	Rank, Ranks int
	Options     string // a digest: all processes send one load
}

// An order goes from the coordinator to another process. The process answers each, but the last
// two, with one report.
type order struct {
	Kind    orderKind
	Streams int   // connect: connections to open
	First   int64 // start: when the first request of the load is due, by the receiver's clock
}

type orderKind byte

const (
	tellTime orderKind = iota + 1
	connect
	start // answered by progress, parts and the end
	stop
)

// A report goes the other way.
type report struct {
	Clock    int64  // now
	Requests string // a digest: that all processes have the same flags does not make their requests the same
	Problem  string

	Ended, Last int64 // of the load: [sender.Ends]
	Indices     []int // of Outcomes
	Outcomes    []answer.Outcome
	Over        bool // the load has ended, and all outcomes are sent
	Stats       sender.Stats
	CPU         time.Duration
}

// A line is one connection between two processes.
type line struct {
	net.Conn
	in  *gob.Decoder
	out *gob.Encoder
}

func newLine(c net.Conn) *line { return &line{c, gob.NewDecoder(c), gob.NewEncoder(c)} }

// greetLimit is how long a connection may take to say who it is.
const greetLimit = 10 * time.Second

var errStranger = errors.New("the other side does not know the secret of the rendezvous file")

// proof shows that its sender knows the secret. Both sides' nonces are in it, so that it can be used
// for this connection only.
func proof(secret, role string, first, second []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(role))
	h.Write(first)
	h.Write(second)
	return h.Sum(nil)
}

func nonce() []byte {
	b := make([]byte, secretBytes)
	rand.Read(b) // never fails
	return b
}

// expect reads what shows that the other side knows the secret.
func (l *line) expect(want []byte) error {
	said := make([]byte, len(want))
	if _, err := io.ReadFull(l.Conn, said); err != nil {
		return err
	}
	if !hmac.Equal(said, want) {
		return errStranger
	}
	return nil
}

// greet makes sure that the coordinator is at the other end, and says who this is.
func (l *line) greet(secret string, h hello) error {
	l.SetDeadline(time.Now().Add(greetLimit))
	defer l.SetDeadline(time.Time{})
	mine, theirs := nonce(), make([]byte, secretBytes)
	if _, err := l.Write(mine); err != nil {
		return err
	}
	if _, err := io.ReadFull(l.Conn, theirs); err != nil {
		return err
	}
	if err := l.expect(proof(secret, "coordinator", mine, theirs)); err != nil {
		return err
	}
	if _, err := l.Write(proof(secret, "worker", theirs, mine)); err != nil {
		return err
	}
	return l.out.Encode(h)
}

// welcome reads a greeting. Nothing of a stranger is decoded.
func (l *line) welcome(secret string) (h hello, err error) {
	l.SetDeadline(time.Now().Add(greetLimit))
	defer l.SetDeadline(time.Time{})
	mine, theirs := nonce(), make([]byte, secretBytes)
	if _, err := io.ReadFull(l.Conn, theirs); err != nil {
		return h, err
	}
	if _, err := l.Write(append(mine, proof(secret, "coordinator", theirs, mine)...)); err != nil {
		return h, err
	}
	if err := l.expect(proof(secret, "worker", mine, theirs)); err != nil {
		return h, err
	}
	err = l.in.Decode(&h)
	return h, err
}
