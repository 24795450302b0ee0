// Command chaos loads an installation of real processes while it kills them at random, then lets
// everything come back, and audits what is left: every call settled exactly once and came back right, no
// claim was granted twice, every commit that was answered is the stored outcome, no workflow is left open,
// and histories replay.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/sync/errgroup"
)

type options struct {
	For    time.Duration `default:"60s" help:"How long to kill."`
	Seed   uint64        `help:"Repeats who is killed when, as far as the machine allows; 0 draws one."`
	Agents int           `default:"24" help:"Agents at work at once."`
	Settle time.Duration `default:"2m" help:"How long everything may take to settle after the last kill."`
	Keep   bool          `help:"Keep the logs also when all is well."`
}

func main() {
	var o options
	kong.Parse(&o, kong.Name("chaos"), kong.Description("Load real processes while killing them, then audit."))
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	fmt.Printf("seed %d: killing for %s\n", o.Seed, o.For)
	dir, err := os.MkdirTemp("", "toolpark-chaos-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil || o.Keep {
			err = errors.Join(err, fmt.Errorf("the logs are in %s", dir))
			return
		}
		err = os.RemoveAll(dir)
	}()
	s, err := startStack(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()

	w, err := startWork(ctx, s, o.Agents)
	if err != nil {
		return err
	}
	defer w.stop()
	killing, stopKilling := context.WithTimeout(ctx, o.For)
	defer stopKilling()
	go func() {
		<-w.ended
		stopKilling() // there is nothing left to disturb
	}()
	killers := []*killer{
		// The whole installation stands still without its servers: give it time to get somewhere in between.
		newKiller(o.Seed, 1, 16*time.Second, s.servers()),
		newKiller(o.Seed, 2, 4*time.Second, s.processes()),
	}
	var group errgroup.Group
	for _, k := range killers {
		group.Go(func() error { return k.run(ctx, killing) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Println("everything is up again; waiting until all has settled")
	settling, cancel := context.WithTimeout(ctx, o.Settle)
	defer cancel()
	finished, err := w.finish(settling)
	if err != nil {
		return err
	}
	if err := s.audit(ctx, w, finished); err != nil {
		return err
	}
	for _, k := range killers {
		k.print()
	}
	w.print(finished)
	fmt.Println("all is well")
	return nil
}
