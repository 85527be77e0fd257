package ray

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/sim/program"
)

// The registry speaks one JSON message per line over TCP: a worker sends "join" and keeps the
// connection, which is its life; anyone may send "status" or, to a daemon on its own node,
// "stop".
type rayMessage struct {
	Do    string    `json:"do,omitempty"`
	Node  *rayNode  `json:"node,omitempty"`
	Nodes []rayNode `json:"nodes,omitempty"`
}

const maxMessage = 1 << 20 // bytes

// A rayDaemonNode is a head or a worker that has joined.
type rayDaemonNode struct {
	stopped chan struct{} // closed when told to stop
	lost    chan struct{} // closed when the head is gone
	closers []io.Closer
	file    string
	head    bool

	once  sync.Once
	mu    sync.Mutex
	nodes []rayNode // of a head, itself first, then in order of arrival
	conns map[net.Conn]bool
}

// rayJoin starts a head or joins one.
func rayJoin(ctx context.Context, p program.Process, o rayOptions) (*rayDaemonNode, error) {
	d := &rayDaemonNode{stopped: make(chan struct{}), lost: make(chan struct{}), conns: map[net.Conn]bool{},
		head: o.head}
	state := rayState{PID: os.Getpid(), GCS: o.address}
	listen := net.JoinHostPort(o.node.IP, "0")
	if o.head {
		listen = net.JoinHostPort(o.node.IP, strconv.Itoa(o.port))
		d.nodes = []rayNode{o.node}
	} else if err := rayConnect(ctx, p, o, d); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		d.close()
		return nil, fmt.Errorf("profllm sim: ray start: %w", err)
	}
	d.closers = append(d.closers, l)
	state.Control = l.Addr().String()
	if o.head {
		state.GCS = state.Control
	}
	go d.serve(l)
	text, err := json.Marshal(state)
	if err == nil {
		d.file, _, err = rayStateFile(p, o.node.IP)
	}
	if err == nil {
		err = durable.WriteFile(d.file, text, 0o600)
	}
	if err != nil {
		d.close()
		return nil, fmt.Errorf("profllm sim: ray start: %w", err)
	}
	return d, nil
}

// rayConnect joins the head, trying until Ray would give up.
func rayConnect(ctx context.Context, p program.Process, o rayOptions, d *rayDaemonNode) error {
	const pause, complain = 100 * time.Millisecond, 5 * time.Second
	end := time.Now().Add(gcsTimeout(p))
	next := time.Now().Add(complain)
	for {
		c, err := dialRay(ctx, o.address, rayMessage{Do: "join", Node: &o.node})
		if err == nil {
			d.closers = append(d.closers, c)
			go func() {
				io.Copy(io.Discard, c)
				close(d.lost)
			}()
			return nil
		}
		if time.Now().After(end) || !program.Wait(ctx, pause) {
			return fmt.Errorf("[profllm sim] Failed to connect to GCS at address %s within %s: %w", o.address,
				gcsTimeout(p), err)
		}
		if time.Now().After(next) {
			next = next.Add(complain)
			fmt.Fprintf(p.Stderr, "[profllm sim] Failed to connect to GCS at address %s within 5 seconds.\n", o.address)
		}
	}
}

func (d *rayDaemonNode) close() {
	d.mu.Lock()
	for c := range d.conns {
		c.Close()
	}
	d.mu.Unlock()
	for _, c := range d.closers {
		c.Close()
	}
	if d.file != "" {
		os.Remove(d.file)
	}
}

func (d *rayDaemonNode) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go d.talk(c)
	}
}

func (d *rayDaemonNode) talk(c net.Conn) {
	defer c.Close()
	d.mu.Lock()
	d.conns[c] = true
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.conns, c)
	}()
	m, err := readMessage(c)
	if err != nil {
		return
	}
	switch {
	case m.Do == "stop":
		json.NewEncoder(c).Encode(rayMessage{Do: "stopping"})
		d.once.Do(func() { close(d.stopped) })
	case m.Do == "status" && d.head:
		json.NewEncoder(c).Encode(rayMessage{Nodes: d.list()})
	case m.Do == "join" && m.Node != nil && d.head:
		d.enter(*m.Node)
		defer d.leave(m.Node.ID)
		json.NewEncoder(c).Encode(rayMessage{Do: "joined"})
		io.Copy(io.Discard, c)
	}
}

func (d *rayDaemonNode) list() []rayNode {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.nodes)
}

func (d *rayDaemonNode) enter(n rayNode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes = append(d.nodes, n)
}

func (d *rayDaemonNode) leave(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes = slices.DeleteFunc(d.nodes, func(n rayNode) bool { return n.ID == id })
}

// readMessage reads one line; it reads no further than that line may be long.
func readMessage(r io.Reader) (rayMessage, error) {
	var m rayMessage
	line, err := bufio.NewReader(io.LimitReader(r, maxMessage)).ReadBytes('\n')
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(line, &m)
}

// dialRay sends one message and waits for the answer's first byte to be there; the connection
// stays open.
func dialRay(ctx context.Context, address string, m rayMessage) (net.Conn, error) {
	c, _, err := exchange(ctx, address, m)
	return c, err
}

func exchange(ctx context.Context, address string, m rayMessage) (net.Conn, rayMessage, error) {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, rayMessage{}, err
	}
	c.SetDeadline(time.Now().Add(5 * time.Second))
	var answer rayMessage
	err = json.NewEncoder(c).Encode(m)
	if err == nil {
		answer, err = readMessage(c)
	}
	if err != nil {
		c.Close()
		return nil, answer, fmt.Errorf("%s does not answer as a head: %w", address, err)
	}
	c.SetDeadline(time.Time{})
	return c, answer, nil
}

func askNodes(ctx context.Context, address string) ([]rayNode, error) {
	c, answer, err := exchange(ctx, address, rayMessage{Do: "status"})
	if err != nil {
		return nil, err
	}
	c.Close()
	if len(answer.Nodes) == 0 {
		return nil, errors.New("no nodes in the answer")
	}
	return answer.Nodes, nil
}

func tellStop(ctx context.Context, address string) error {
	c, _, err := exchange(ctx, address, rayMessage{Do: "stop"})
	if err != nil {
		return err
	}
	return c.Close()
}
