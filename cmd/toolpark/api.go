package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/toolpark/toolpark/api"
	"github.com/toolpark/toolpark/internal/kernel"
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
	config, err := c.kernel(c.DatabaseConfig, c.PoolConfig, logger)
	if err != nil {
		return err
	}
	config.Tokens = c.tokens()
	k, err := kernel.Open(ctx, config)
	if err != nil {
		return err
	}
	defer k.Close()
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", c.Listen, err)
	}
	return serveOn(ctx, listener, k.API(), c.ListenConfig, logger)
}

// serveOn answers requests until ctx ends. Then it stops accepting, answers long polls early, ends
// streams, and lets the other requests finish.
func serveOn(ctx context.Context, listener net.Listener, server *api.Server, c ListenConfig, logger *slog.Logger) error {
	httpServer := &http.Server{
		Handler:           server.Handler(),
		ReadHeaderTimeout: 10 * time.Second, // bodies have a deadline of their own, and answers may take a minute
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	httpServer.RegisterOnShutdown(server.Drain)
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
