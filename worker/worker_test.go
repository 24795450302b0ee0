package worker_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/devstack/devtest"
	"github.com/toolpark/toolpark/internal/kernel"
	"github.com/toolpark/toolpark/internal/kerneltest"
)

func TestAWorkerWaitsForTheServer(t *testing.T) {
	t.Parallel()
	k := kerneltest.StartAPI(t)
	y := &yard{Account: k.Account()}
	y.open()
	task := y.Unstarted(y.run, y.runner, "echo", time.Millisecond, 1)[0]

	address := freeAddress(t) // where nothing listens yet
	far := k.Another(t, func(c *kernel.Config) { c.Temporal.HostPort = address })
	far.StartWorker() // fails the test if it ends by itself

	require.Never(t, func() bool { return task.Row().SettledAt != nil }, 3*time.Second, 200*time.Millisecond)
	forward(t, address, devtest.Temporal(t))
	require.Equal(t, toolpark.TimedOut, task.Settled().Status)
}

func TestAWorkerThatWaitsForTheServerStops(t *testing.T) {
	t.Parallel()
	far := kerneltest.StartAPI(t).Another(t, func(c *kernel.Config) { c.Temporal.HostPort = "127.0.0.1:1" })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- far.Worker().Run(ctx) }()
	stop()
	require.NoError(t, <-ended)
}

func TestAWorkerDoesNotWaitForAnOperator(t *testing.T) {
	t.Parallel()
	lost := kerneltest.StartAPI(t).Another(t, func(c *kernel.Config) { c.Temporal.Namespace = "no-such-namespace" })
	require.ErrorContains(t, lost.Worker().Run(t.Context()), "no-such-namespace")
}

// freeAddress is where nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, reserved.Close())
	return reserved.Addr().String()
}

// forward passes connections at an address on to another one, until it is cut or the test ends.
func forward(t *testing.T, address, to string) (cut func()) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	ctx, cut := context.WithCancel(t.Context())
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	pipe := func(in net.Conn) {
		defer in.Close()
		out, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		context.AfterFunc(ctx, func() {
			_ = in.Close()
			_ = out.Close()
		})
		go func() {
			_, _ = io.Copy(out, in)
			_ = out.Close()
		}()
		_, _ = io.Copy(in, out)
	}
	go func() {
		for {
			in, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go pipe(in)
			}
		}
	}()
	return cut
}
