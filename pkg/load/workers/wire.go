package workers

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
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

// A hello is the first thing that a process sends: the secret, then this, in gob.
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
	Clock   int64 // now
	Problem string

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

// greet says the secret, and who this is.
func (l *line) greet(secret string, h hello) error {
	if _, err := io.WriteString(l, secret); err != nil {
		return err
	}
	return l.out.Encode(h)
}

// welcome reads a greeting. Nothing of a stranger is decoded.
func (l *line) welcome(secret string) (h hello, err error) {
	l.SetDeadline(time.Now().Add(greetLimit))
	defer l.SetDeadline(time.Time{})
	said := make([]byte, 2*secretBytes)
	if _, err := io.ReadFull(l.Conn, said); err != nil {
		return h, err
	}
	if subtle.ConstantTimeCompare(said, []byte(secret)) != 1 {
		return h, errStranger
	}
	err = l.in.Decode(&h)
	return h, err
}
