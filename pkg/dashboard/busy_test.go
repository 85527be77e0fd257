package dashboard_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/dashboard"
	"github.com/profllm/profllm/pkg/upload"
)

// A client that sends a byte now and then is cut off, by the bytes that it should have sent, and leaves nothing.
func TestSlowUpload(t *testing.T) {
	s := start(t, t.TempDir(), config{opts: dashboard.Options{Patience: 300 * time.Millisecond}})
	c, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	defer c.Close()
	_, err = fmt.Fprintf(c, "POST /api/upload/json HTTP/1.1\r\nHost: %s\r\nContent-Type: multipart/form-data; boundary=b\r\n"+
		"Content-Length: 1000000\r\n\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"slow.json\"\r\n\r\n{", s.addr)
	require.NoError(t, err)
	stop := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				if _, err := c.Write([]byte(" ")); err != nil {
					return
				}
			}
		}
	})
	answer, err := io.ReadAll(c)
	close(stop)
	sending.Wait()
	if len(answer) == 0 {
		require.NoError(t, err)
	}
	require.Contains(t, string(answer), "408 Request Timeout")
	require.Contains(t, string(answer), "slow.json")
	s.well()
}

// A thousand uploads at once are received some at a time; each is accepted or told to come again, and of the
// accepted ones each is worked off.
//
// covers: API-1, SM-3
func TestThousandUploadsAtOnce(t *testing.T) {
	s := start(t, t.TempDir(), config{opts: dashboard.Options{AtOnce: 4}})
	n := 1000
	if testing.Short() {
		n = 100
		t.Logf("in part: %d of 1000 uploads with -short", n)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	count, jobs := map[int]int{}, []string{}
	client := &http.Client{Transport: &http.Transport{MaxIdleConns: n, MaxIdleConnsPerHost: n}}
	defer client.CloseIdleConnections()
	body, kind := form(t, "notes.txt", "no result")
	record := goodRecord(t, nil)
	for i := range n {
		all.Go(func() {
			path, b, k := "/api/upload/json", body, kind
			if i%100 == 0 {
				path, b, k = "/api/upload/raw", record, "application/json"
			}
			got, err := client.Post(s.url+path, k, strings.NewReader(b))
			if err != nil {
				t.Error(err)
				return
			}
			defer got.Body.Close()
			var st upload.Status
			if got.StatusCode == http.StatusAccepted {
				err = json.NewDecoder(got.Body).Decode(&st)
			}
			mu.Lock()
			defer mu.Unlock()
			count[got.StatusCode]++
			if st.Job != "" {
				jobs = append(jobs, st.Job)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Equal(t, n, count[202]+count[503], "%v", count)
	require.Len(t, jobs, count[202])
	for _, job := range jobs {
		s.uploaded(job)
	}
	require.LessOrEqual(t, s.runs(), 1)
	s.well()
}

// While all places are taken by clients that send nothing, another is told to come again; afterwards it is served.
func TestPlacesThatAreTaken(t *testing.T) {
	s := start(t, t.TempDir(), config{opts: dashboard.Options{AtOnce: 2, Patience: 2 * time.Second}})
	var silent []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", s.addr)
		require.NoError(t, err)
		defer c.Close()
		silent = append(silent, c)
		_, err = fmt.Fprintf(c, "POST /api/upload/raw HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n", s.addr)
		require.NoError(t, err)
	}
	served := false
	for !served {
		status, answer, head := s.send("POST", "/api/upload/raw", "application/json", strings.NewReader("{}"))
		switch status {
		case 202:
			served = true
		case 503:
			require.Equal(t, "10", head.Get("Retry-After"))
			require.Contains(t, string(answer), "try again later")
		default:
			t.Fatalf("%d %s", status, answer)
		}
	}
	for _, c := range silent { // the server ends them, whether or not they had a place in time
		_, err := io.Copy(io.Discard, c)
		require.NoError(t, err)
	}
	s.well()
}
