package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/toolpark/toolpark/internal/kernel"
)

// WorkerCmd runs the Temporal worker until it is told to stop.
type WorkerCmd struct {
	DatabaseConfig `embed:""`
	PoolConfig     `embed:""`
	TemporalConfig `embed:""`
	HealthConfig   `embed:""`
	LogConfig      `embed:""`
}

// Validate refuses settings that no worker can run with.
func (c *WorkerCmd) Validate() error { return c.PoolConfig.check() }

// Run works until ctx ends, then drains.
func (c *WorkerCmd) Run(ctx context.Context) error {
	logger := c.Logger()
	config, err := c.kernel(c.DatabaseConfig, c.PoolConfig, logger)
	if err != nil {
		return err
	}
	k, err := kernel.Open(ctx, config)
	if err != nil {
		return err
	}
	defer k.Close()
	w := k.Worker()
	if c.WorkerListen != "" {
		health, err := serveHealth(ctx, c.WorkerListen, w.Health(), logger)
		if err != nil {
			return err
		}
		defer func() { _ = health.Close() }()
	}
	return w.Run(ctx)
}

// serveHealth answers health checks until the server is closed.
func serveHealth(ctx context.Context, address string, h http.Handler, logger *slog.Logger) (*http.Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	server := &http.Server{
		Handler: h, ReadTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.ErrorContext(ctx, "health checks are not answered any more", "error", err)
		}
	}()
	logger.InfoContext(ctx, "worker answers health checks", "address", listener.Addr().String())
	return server, nil
}
