package sender

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/profllm/profllm/pkg/load/answer"
)

// A dialer opens connections to a server, through a proxy if there is one.
type dialer struct {
	target *url.URL
	via    *url.URL // nil is none
	tls    *tls.Config
}

// A conn is one connection of a pool.
type conn struct {
	net.Conn
	raw       *net.TCPConn // below TLS
	roundTrip int64        // ns
	used      bool         // has carried a request before
	since     int64        // when it was opened, or became idle
}

// dial opens a connection over which the server can be asked.
func (d *dialer) dial(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, ConnectLimit)
	defer cancel()
	first := cmp.Or(d.via, d.target)
	began := time.Now()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", hostPort(first))
	if err != nil {
		return nil, err
	}
	raw := c.(*net.TCPConn) // the network is tcp
	made := &conn{Conn: c, raw: raw, roundTrip: int64(time.Since(began))}
	if err := d.prepare(ctx, made); err != nil {
		c.Close()
		return nil, err
	}
	return made, nil
}

// prepare does what comes before requests on a new connection: TLS with the proxy, a tunnel,
// TLS with the server.
func (d *dialer) prepare(ctx context.Context, c *conn) error {
	if d.via != nil && d.via.Scheme == "https" {
		if err := d.secure(ctx, c, d.via); err != nil {
			return fmt.Errorf("proxy %s: %w", d.via.Redacted(), err)
		}
	}
	if d.target.Scheme != "https" {
		return nil
	}
	if d.via != nil {
		if err := d.tunnel(ctx, c); err != nil {
			return fmt.Errorf("proxy %s: %w", d.via.Redacted(), err)
		}
	}
	return d.secure(ctx, c, d.target)
}

// secure adds a layer of TLS for the host of u.
func (d *dialer) secure(ctx context.Context, c *conn, u *url.URL) error {
	config := d.tls.Clone()
	config.ServerName = u.Hostname()
	layer := tls.Client(c.Conn, config)
	c.Conn = layer
	return layer.HandshakeContext(ctx)
}

// tunnel asks the proxy for a connection to the server.
func (d *dialer) tunnel(ctx context.Context, c *conn) error {
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(past) })
	defer stop()
	host := hostPort(d.target)
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", host, host, d.credentials()); err != nil {
		return err
	}
	// Behind the answer nothing comes before this side speaks, so that the reader takes no byte
	// of TLS.
	in := bufio.NewReader(io.LimitReader(c, answer.HeadLimit))
	resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// credentials returns the header by which the proxy knows the user, or "".
func (d *dialer) credentials() string {
	if d.via == nil || d.via.User == nil {
		return ""
	}
	password, _ := d.via.User.Password()
	pair := d.via.User.Username() + ":" + password
	return "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) + "\r\n"
}

// hostPort returns the address of u's host, with the port of its scheme if it names none.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// past is a deadline that interrupts what waits.
var past = time.Unix(1, 0)

// ticketWait is how long a TLS layer may take to read what has arrived for it alone, such as
// session tickets.
const ticketWait = time.Millisecond

// silent reports whether nothing has arrived on an idle connection for its reader: neither
// bytes nor its end.
func (c *conn) silent() bool {
	quiet := false
	if system, err := c.raw.SyscallConn(); err == nil {
		system.Control(func(fd uintptr) { quiet = silent(int(fd)) }) // an error leaves quiet false
	}
	if c.Conn == net.Conn(c.raw) {
		return quiet
	}
	deadline := past // looks at what TLS has read and holds
	if !quiet {
		deadline = time.Now().Add(ticketWait)
	}
	c.SetReadDeadline(deadline)
	defer c.SetReadDeadline(time.Time{})
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}
