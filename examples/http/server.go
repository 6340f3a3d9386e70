package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
)

// checksum is the trailer that carries a body's SHA-256.
const checksum = "X-Checksum"

// handler answers the three requests of the client: a small page, a body
// to take in, a body to give out.
func handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello over a queue pair")
	})
	mux.HandleFunc("POST /upload", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		if _, err := io.Copy(sum, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, hex.EncodeToString(sum.Sum(nil)))
	})
	mux.HandleFunc("GET /download", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.ParseInt(r.FormValue("bytes"), 10, 64)
		if err != nil || n < 0 {
			http.Error(w, "bytes must be a number", http.StatusBadRequest)
			return
		}
		w.Header().Set("Trailer", checksum)
		sum := sha256.New()
		if _, err := io.Copy(w, io.TeeReader(body(n), sum)); err != nil {
			return // the client is gone
		}
		w.Header().Set(checksum, hex.EncodeToString(sum.Sum(nil)))
	})
	return mux
}

// body is n bytes that no two transfers share.
func body(n int64) io.Reader {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	return io.LimitReader(rand.NewChaCha8(seed), n)
}
