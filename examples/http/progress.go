package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progress counts the bytes written to it and, on a terminal, shows them on
// one line that it keeps rewriting.
type progress struct {
	what        string
	done, total int64
	start, last time.Time
	out         io.Writer
	live        bool
}

func newProgress(what string, total int64, out io.Writer) *progress {
	f, ok := out.(*os.File)
	return &progress{what: what, total: total, start: time.Now(), out: out,
		live: ok && term.IsTerminal(int(f.Fd()))}
}

func (p *progress) Write(b []byte) (int, error) {
	p.done += int64(len(b))
	if now := time.Now(); p.live && now.Sub(p.last) > 100*time.Millisecond {
		p.last = now
		fmt.Fprintf(p.out, "\r%s: %d of %d MiB", p.what, p.done>>20, p.total>>20)
	}
	return len(b), nil
}

// finish prints the result, or returns an error if bytes are missing or the
// two checksums differ.
func (p *progress) finish(sent, received string) error {
	if p.live {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
	if p.done != p.total {
		return fmt.Errorf("%d of %d bytes arrived", p.done, p.total)
	}
	if sent != received {
		return fmt.Errorf("checksums differ: %s and %s", sent, received)
	}
	took := time.Since(p.start)
	fmt.Fprintf(p.out, "%s: %d MiB in %v, %.0f MB/s, checksum %.12s agrees\n", p.what, p.total>>20,
		took.Round(time.Millisecond), float64(p.total)/1e6/took.Seconds(), sent)
	return nil
}
