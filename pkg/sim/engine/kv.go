package engine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/sim/program"
)

// KVParams is vLLM's kv_transfer_params: what a prefill server hands to the decode server,
// through the proxy.
type KVParams struct {
	DoRemotePrefill bool    `json:"do_remote_prefill"`
	DoRemoteDecode  bool    `json:"do_remote_decode"`
	BlockIDs        [][]int `json:"remote_block_ids"`
	EngineID        string  `json:"remote_engine_id"`
	RequestID       string  `json:"remote_request_id"`
	Host            string  `json:"remote_host"`
	Port            int     `json:"remote_port"`
	TP              int     `json:"tp_size"`
	DCP             int     `json:"dcp_size"`
	PP              int     `json:"pp_size"`
	NumTokens       int     `json:"remote_num_tokens"`
	Expiry          any     `json:"remote_blocks_expiry_time"`
	Mode            string  `json:"transfer_mode"`
	Cached          int     `json:"remote_prefill_cached_tokens"`

	room *uint64 // of SGLang: the KV cache is asked for by this number
}

// A connector plays NIXL: it announces this server's engine id on the side channel and fetches
// from other servers that announce theirs. No KV cache moves; what is checked is that the two
// servers reach each other.
type connector struct {
	id        string
	host      string // as announced, VLLM_NIXL_SIDE_CHANNEL_HOST
	port      int
	tp        int
	blockSize int
	rooms     rooms

	mu        sync.Mutex
	nextBlock int
	transfers transferStats
}

// transferStats are what the periodic log line tells of the transfers since the last one.
type transferStats struct {
	ok, failed int
	time       time.Duration
	bytes      int
}

// Side channel defaults of vLLM 0.32.0.
const (
	sideChannelHost = "localhost"
	sideChannelPort = 5600
)

// Shape of the model of the recorded answers: 2 layers of keys and values, 2 heads of 64
// float32 numbers.
const (
	bytesPerToken          = 2 * 2 * 2 * 64 * 4
	descriptorsPerTransfer = 2
)

const handshakeTimeout = 5 * time.Second

// announcement is what the side channel answers.
type announcement struct {
	EngineID string `json:"engine_id"`
	Engine   string `json:"engine"` // "profllm-sim"
	// Of SGLang: decode sends it, and gets it back once prefill has computed the KV cache.
	Room *uint64 `json:"room,omitempty"`
}

// roomTimeout is how long decode waits for a KV cache (SGLANG_DISAGGREGATION_WAITING_TIMEOUT).
const roomTimeout = 300 * time.Second

// rooms are the KV caches that prefill has computed or decode has asked for, by bootstrap_room. The
// zero value has none.
type rooms struct {
	mu   sync.Mutex
	done map[uint64]chan struct{} // closed once computed
}

func (r *rooms) door(room uint64) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done = map[uint64]chan struct{}{}
	}
	if r.done[room] == nil {
		r.done[room] = make(chan struct{})
	}
	return r.done[room]
}

// open tells that the KV cache is there. A second request with the same number changes nothing.
func (r *rooms) open(room uint64) {
	door := r.door(room)
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-door:
	default:
		close(door)
	}
}

// enter waits for the KV cache and forgets it: it is fetched once.
func (r *rooms) enter(room uint64, patience time.Duration) bool {
	door := r.door(room)
	defer func() {
		r.mu.Lock()
		delete(r.done, room)
		r.mu.Unlock()
	}()
	select {
	case <-door:
		return true
	case <-time.After(patience):
		return false
	}
}

func newConnector(c Config, env func(string) string, id string) (*connector, error) {
	k := &connector{id: id, host: sideChannelHost, port: sideChannelPort, tp: c.TP, blockSize: c.BlockSize,
		nextBlock: 1}
	if h := env("VLLM_NIXL_SIDE_CHANNEL_HOST"); h != "" {
		k.host = h
	}
	if s := env("VLLM_NIXL_SIDE_CHANNEL_PORT"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > 65535 {
			return nil, fmt.Errorf("VLLM_NIXL_SIDE_CHANNEL_PORT=%q: want a port", s)
		}
		k.port = n
	}
	return k, nil
}

// announce answers handshakes on l until it is closed.
func (k *connector) announce(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			c.SetDeadline(time.Now().Add(handshakeTimeout))
			json.NewEncoder(c).Encode(announcement{EngineID: k.id, Engine: program.Version})
			var asked announcement
			if json.NewDecoder(io.LimitReader(c, 4096)).Decode(&asked) != nil || asked.Room == nil {
				return // of vLLM's there is nothing more to say
			}
			c.SetDeadline(time.Now().Add(roomTimeout))
			if k.rooms.enter(*asked.Room, roomTimeout) {
				json.NewEncoder(c).Encode(announcement{EngineID: k.id, Engine: program.Version, Room: asked.Room})
			}
		}()
	}
}

// offer returns the parameters under which a decode server may fetch the KV cache of a finished
// prompt.
func (k *connector) offer(requestID string, prompt, cached int) *KVParams {
	blocks := make([]int, (prompt+k.blockSize-1)/k.blockSize)
	k.mu.Lock()
	for i := range blocks {
		blocks[i] = k.nextBlock
		k.nextBlock++
	}
	k.mu.Unlock()
	return &KVParams{
		DoRemotePrefill: true,
		BlockIDs:        [][]int{blocks},
		EngineID:        k.id,
		RequestID:       requestID,
		Host:            k.host,
		Port:            k.port,
		TP:              k.tp, DCP: 1, PP: 1,
		NumTokens: prompt,
		Mode:      "pull",
		Cached:    cached,
	}
}

// A transferError says that a KV cache could not be fetched; the request is answered with
// status 500.
type transferError struct{ err error }

func (e *transferError) Error() string { return "fetch kv cache: " + e.err.Error() }
func (e *transferError) Unwrap() error { return e.err }

func isTransfer(err error) bool {
	var t *transferError
	return errors.As(err, &t)
}

// fetch takes over the KV cache of tokens tokens. Transfer metrics move only when the server at
// the given address announces the given engine id.
func (k *connector) fetch(ctx context.Context, from *KVParams, tokens int, m *registry) error {
	start := time.Now()
	if err := handshake(ctx, from); err != nil {
		m.add("vllm:nixl_num_failed_transfers", 1)
		k.note(transferStats{failed: 1})
		return &transferError{err}
	}
	took := time.Since(start)
	moved := (tokens + k.blockSize - 1) / k.blockSize * k.blockSize * bytesPerToken
	m.observe("vllm:nixl_xfer_time_seconds", took.Seconds())
	m.observe("vllm:nixl_post_time_seconds", 0)
	m.observe("vllm:nixl_bytes_transferred", float64(moved))
	m.observe("vllm:nixl_num_descriptors", descriptorsPerTransfer)
	k.note(transferStats{ok: 1, time: took, bytes: moved})
	return nil
}

func handshake(ctx context.Context, from *KVParams) error {
	patience := handshakeTimeout
	if from.room != nil {
		patience = roomTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(from.Host, strconv.Itoa(from.Port)))
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	defer c.Close()
	c.SetDeadline(time.Now().Add(handshakeTimeout))
	in := bufio.NewReader(io.LimitReader(c, 4096))
	a, err := heard(in)
	if err == nil && from.room != nil {
		c.SetDeadline(time.Now().Add(roomTimeout))
		if err = json.NewEncoder(c).Encode(announcement{Engine: program.Version, Room: from.room}); err == nil {
			from.EngineID = a.EngineID // any that answers for the room
			a, err = heard(in)
		}
	}
	if err != nil {
		return fmt.Errorf("handshake with %s: %w", c.RemoteAddr(), err)
	}
	if a.EngineID != from.EngineID {
		return fmt.Errorf("engine at %s is %s, not %s", c.RemoteAddr(), a.EngineID, from.EngineID)
	}
	return nil
}

// heard reads one announcement.
func heard(in *bufio.Reader) (a announcement, err error) {
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	return a, err
}

func (k *connector) note(s transferStats) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.transfers.ok += s.ok
	k.transfers.failed += s.failed
	k.transfers.time += s.time
	k.transfers.bytes += s.bytes
}

// take returns the transfers since the last call.
func (k *connector) take() transferStats {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.transfers
	k.transfers = transferStats{}
	return s
}
