package rdma_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma"
)

func Example() {
	ln, err := rdma.Listen("rdma", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.Copy(c, c)
	}()

	c, err := rdma.Dial("rdma", ln.Addr().String())
	if err != nil {
		panic(err)
	}
	defer c.Close()
	fmt.Fprint(c, "hello over a queue pair")
	c.(*conn.Conn).CloseWrite()
	answer, err := io.ReadAll(c)
	fmt.Println(string(answer), err)
	// Output: hello over a queue pair <nil>
}

func ExampleDialer() {
	ln, err := rdma.Listen("rdma", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "net/http, unchanged")
	})}
	go server.Serve(ln)
	defer server.Close()

	dialer := &rdma.Dialer{Timeout: 5 * time.Second}
	transport := &http.Transport{DialContext: dialer.DialContext}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("http://" + ln.Addr().String())
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.Status, string(body))
	// Output: 200 OK net/http, unchanged
}

func ExampleListenConfig() {
	lc := rdma.ListenConfig{
		Config: rdma.Config{Device: rdma.Soft, BufferSize: 64 << 10},
		OnError: func(remote net.Addr, err error) {
			fmt.Println("a client failed:", err)
		},
	}
	ln, err := lc.Listen(context.Background(), "rdma", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(ln.Addr().Network(), ln.Close())
	// Output: rdma <nil>
}
