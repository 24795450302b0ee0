package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.temporal.io/sdk/client"

	"github.com/toolpark/toolpark/api"
)

// APICmd serves the HTTP API until it is told to stop.
type APICmd struct {
	DatabaseConfig `embed:""`
	PoolConfig     `embed:""`
	TemporalConfig `embed:""`
	ClaimConfig    `embed:""`
	ListenConfig   `embed:""`
	LogConfig      `embed:""`
}

// Validate refuses settings that no server can run with.
func (c *APICmd) Validate() error { return errors.Join(c.PoolConfig.check(), c.ClaimConfig.check()) }

// Run serves. It starts without the database or Temporal, too: /readyz says what is missing.
func (c *APICmd) Run(ctx context.Context) error {
	logger := c.Logger()
	k, err := openKernel(ctx, c.DatabaseConfig, c.PoolConfig, c.TemporalConfig, c.tokens(), logger)
	if err != nil {
		return err
	}
	defer k.stop()
	return serve(ctx, k.server(logger), c.ListenConfig, logger)
}

// server is the HTTP API over the kernel.
func (k *kernel) server(logger *slog.Logger) *api.Server {
	return &api.Server{
		DB:       k.db,
		Park:     k.park,
		Delivery: k.delivery,
		Log:      logger,
		Metrics:  newMetrics(),
		Temporal: func(ctx context.Context) error {
			_, err := k.temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
			return err
		},
	}
}

func newMetrics() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// serve answers requests until ctx ends. Then it stops accepting, answers long polls early, ends
// streams, and lets the other requests finish.
func serve(ctx context.Context, server *api.Server, c ListenConfig, logger *slog.Logger) error {
	httpServer := &http.Server{
		Handler:           server.Handler(),
		ReadHeaderTimeout: 10 * time.Second, // bodies have a deadline of their own, and answers may take a minute
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	httpServer.RegisterOnShutdown(server.Drain)
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", c.Listen, err)
	}
	logger.InfoContext(ctx, "api started", "address", listener.Addr().String())

	stopped := make(chan error, 1)
	go func() { stopped <- httpServer.Serve(listener) }()
	select {
	case err := <-stopped:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	logger.InfoContext(ctx, "api stopping")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.ShutdownTime)
	defer cancel()
	if err := httpServer.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("requests were cut off at shutdown: %w", err), httpServer.Close())
	}
	logger.InfoContext(ctx, "api stopped")
	return nil
}
