package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma"
)

// load is what the client does: small requests for a period, then one body
// each way.
type load struct {
	period time.Duration
	body   int64 // MiB
}

// workers send small requests side by side, each on a connection of its own.
const workers = 4

func client(ctx context.Context, address string, load load, stdout io.Writer) error {
	var dialer rdma.Dialer
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: workers}
	defer transport.CloseIdleConnections()
	web := &site{client: &http.Client{Transport: transport}, url: "http://" + address}

	if err := web.device(ctx, stdout); err != nil {
		return err
	}
	if err := web.smallRequests(ctx, load.period, stdout); err != nil {
		return err
	}
	if err := web.upload(ctx, load.body<<20, stdout); err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	if err := web.download(ctx, load.body<<20, stdout); err != nil {
		return fmt.Errorf("download: %w", err)
	}
	return nil
}

// site is the server as its client sees it.
type site struct {
	client *http.Client
	url    string
}

// device tells what carries the requests.
func (s *site) device(ctx context.Context, stdout io.Writer) error {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		fmt.Fprintf(stdout, "%s over %s\n", got.Conn.RemoteAddr(), got.Conn.(*conn.Conn).Device())
	}})
	_, err := s.do(ctx, "GET", "/", nil)
	return err
}

// smallRequests fetches the small page over and over for a period.
func (s *site) smallRequests(ctx context.Context, period time.Duration, stdout io.Writer) error {
	var took [workers][]time.Duration
	start := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range workers {
		group.Go(func() error {
			for began := start; began.Sub(start) < period; {
				if _, err := s.do(ctx, "GET", "/", nil); err != nil {
					return err
				}
				ended := time.Now()
				took[i] = append(took[i], ended.Sub(began))
				began = ended
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	total := time.Since(start)
	all := slices.Concat(took[:]...)
	slices.Sort(all)
	at := func(q float64) time.Duration { return all[int(q*float64(len(all)))].Round(time.Microsecond) }
	fmt.Fprintf(stdout, "small requests: %.0f/s on %d connections, p50 %v, p90 %v, p99 %v\n",
		float64(len(all))/total.Seconds(), workers, at(0.50), at(0.90), at(0.99))
	return nil
}

// do sends one request and returns the whole answer.
func (s *site) do(ctx context.Context, method, path string, body io.Reader) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return answer, err
}

// upload streams n bytes to the server and compares checksums.
func (s *site) upload(ctx context.Context, n int64, stdout io.Writer) error {
	sum := sha256.New()
	p := newProgress("upload", n, stdout)
	answer, err := s.do(ctx, "POST", "/upload", io.TeeReader(body(n), io.MultiWriter(sum, p)))
	if err != nil {
		return err
	}
	return p.finish(hex.EncodeToString(sum.Sum(nil)), string(answer))
}

// download streams n bytes from the server and compares checksums.
func (s *site) download(ctx context.Context, n int64, stdout io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("%s/download?bytes=%d", s.url, n), nil)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	sum := sha256.New()
	p := newProgress("download", n, stdout)
	if _, err := io.Copy(io.MultiWriter(sum, p), resp.Body); err != nil {
		return err
	}
	return p.finish(hex.EncodeToString(sum.Sum(nil)), resp.Trailer.Get(checksum))
}
