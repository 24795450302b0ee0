// Command bench measures a durable tool call against what Temporal itself costs, on one machine and one
// Temporal server: a bare workflow, what a Temporal user would write by hand, and Toolpark over HTTP.
// The server is Temporal's production server with its state in Postgres.
//
// The columns run interleaved, so that a noisy machine disturbs all of them alike; figures are medians
// over the rounds, and ratios come from one run.
package main

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"github.com/toolpark/toolpark/internal/devstack"
)

type options struct {
	Rounds      int    `default:"5" help:"Rounds of each column; medians are over these."`
	Calls       int    `default:"400" help:"Calls in one round of one column."`
	Concurrency int    `default:"16" help:"Calls in flight at once."`
	InMemory    bool   `help:"Measure on Temporal's development server in memory: quicker, and kinder to Temporal than production is."`
	JSON        bool   `name:"json" help:"Print the figures as JSON."`
	Profile     string `placeholder:"FILE" help:"Write a CPU profile of the Toolpark column to FILE."`
}

// column is one way to make a durable call.
type column struct {
	name string
	call func(ctx context.Context, slot int) error
}

// figures is what one column showed: medians over the rounds.
type figures struct {
	Column       string  `json:"column"`
	PerSecond    float64 `json:"calls_per_second"`
	P50Ms        float64 `json:"p50_ms"`
	P99Ms        float64 `json:"p99_ms"`
	RatioToFirst float64 `json:"ratio_to_bare"`
	RatioToHand  float64 `json:"ratio_to_by_hand,omitzero"`
}

func main() {
	var o options
	kong.Parse(&o, kong.Name("bench"), kong.Description("Measure a durable tool call against plain Temporal."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	stack, err := devstack.Start(ctx, devstack.Options{Progress: os.Stderr, Production: !o.InMemory})
	if err != nil {
		return err
	}
	defer func() { _ = stack.Stop() }()
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))

	plain, err := startPlain(stack.Temporal.Address, logger)
	if err != nil {
		return err
	}
	defer plain.stop()
	park, err := startToolpark(ctx, stack, o.Concurrency, logger)
	if err != nil {
		return err
	}
	defer park.stop()

	columns := []column{{"bare", plain.bare}, {"by hand", plain.byHand}, {"toolpark", park.call}}
	samples := make([][]sample, len(columns))
	for round := -1; round < o.Rounds; round++ { // the first round warms up
		for i, c := range columns {
			stopProfile, err := profile(o, c, round)
			if err != nil {
				return err
			}
			s, err := measure(ctx, c, o)
			stopProfile()
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if round < 0 {
				continue
			}
			samples[i] = append(samples[i], s)
			fmt.Fprintf(os.Stderr, "round %d of %d: %-9s %7.1f calls/s\n", round+1, o.Rounds, c.name, s.perSecond)
		}
	}
	return report(columns, samples, o.JSON)
}

// profile profiles the last round of Toolpark's column.
func profile(o options, c column, round int) (stop func(), err error) {
	if o.Profile == "" || c.name != "toolpark" || round != o.Rounds-1 {
		return func() {}, nil
	}
	file, err := os.Create(o.Profile)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}

func report(columns []column, samples [][]sample, asJSON bool) error {
	all := make([]figures, len(columns))
	for i, c := range columns {
		all[i] = figures{
			Column:    c.name,
			PerSecond: median(samples[i], func(s sample) float64 { return s.perSecond }),
			P50Ms:     median(samples[i], func(s sample) float64 { return ms(s.p50) }),
			P99Ms:     median(samples[i], func(s sample) float64 { return ms(s.p99) }),
		}
		all[i].RatioToFirst = all[i].PerSecond / all[0].PerSecond
		if i > 1 {
			all[i].RatioToHand = all[i].PerSecond / all[1].PerSecond
		}
	}
	if asJSON {
		return json.MarshalWrite(os.Stdout, all, jsontext.WithIndent("  "))
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "\tcalls/s\tp50 ms\tp99 ms\tto bare\tto by hand\t")
	for _, f := range all {
		toHand := "–"
		if f.RatioToHand > 0 {
			toHand = fmt.Sprintf("%.2f", f.RatioToHand)
		}
		fmt.Fprintf(out, "%s\t%.1f\t%.1f\t%.1f\t%.2f\t%s\t\n", f.Column, f.PerSecond, f.P50Ms, f.P99Ms, f.RatioToFirst, toHand)
	}
	return out.Flush()
}

func median(samples []sample, of func(sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
