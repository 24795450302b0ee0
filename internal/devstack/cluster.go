package devstack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/toolpark/toolpark/internal/watchdog"
)

// maxSocketDir keeps "<dir>/.s.PGSQL.5432" within the 104 bytes macOS has for a socket's path.
const maxSocketDir = 85

// cluster is a private Postgres data directory and how to serve it. It listens on a unix socket
// in a directory of its own and on no port, so clusters never collide and nobody else gets in.
type cluster struct {
	bin       string // the directory of the server's programs
	dir       string // data, log, lock and, where its path is short enough, the socket
	socketDir string
	throwaway bool
	account   *syscall.Credential // whom the server runs as; nil for ourselves
	lock      *os.File
	cancel    func() // calls off the removal of a throwaway cluster when we die
}

// newCluster makes the data directory, or takes an existing one.
func newCluster(ctx context.Context, bin string, options PostgresOptions) (c *cluster, err error) {
	c = &cluster{bin: bin, throwaway: options.Dir == ""}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.throwaway {
		if c.dir, err = scratchDir(); err != nil {
			return c, err
		}
		if c.cancel, err = watchdog.Start(nil, removeScript, c.dir); err != nil {
			return c, err
		}
	} else if c.dir, err = openDir(options.Dir); err != nil {
		return c, err
	}
	if c.lock, err = lockDir(ctx, c.dir, stopWait, options.Progress); err != nil {
		return c, err
	}
	if c.account, err = serverAccount(c.dataDir()); err != nil {
		return c, err
	}
	c.socketDir = filepath.Join(c.dir, "run")
	if len(c.socketDir) > maxSocketDir {
		c.socketDir = filepath.Join("/tmp", "toolpark-run-"+shortHash(c.dir))
	}
	if err := c.own(c.socketDir); err != nil {
		return c, err
	}
	if _, err := os.Stat(filepath.Join(c.dataDir(), "PG_VERSION")); err == nil {
		sayf(options.Progress, "postgres: using %s with the data in %s", bin, c.dataDir())
		return c, nil
	}
	sayf(options.Progress, "postgres: using %s, new data in %s", bin, c.dataDir())
	return c, c.initialise(ctx)
}

// initialise runs initdb: UTF-8, byte order, and trust, since only we can reach the socket.
func (c *cluster) initialise(ctx context.Context) error {
	// A start that was interrupted here leaves half a cluster, without PG_VERSION or with it
	// written early; initdb in a directory of its own and a rename make it whole or absent.
	fresh := c.dataDir() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := c.own(fresh); err != nil {
		return err
	}
	args := []string{"-D", fresh, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale"}
	if c.throwaway {
		args = append(args, "--no-sync")
	}
	if out, err := c.command(ctx, "initdb", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return os.Rename(fresh, c.dataDir())
}

// serve is the command that serves the cluster in the foreground.
func (c *cluster) serve() *exec.Cmd {
	args := []string{"-D", c.dataDir(), "-k", c.socketDir, "-p", "5432", "-c", "listen_addresses=", "-c", "max_connections=300"}
	if c.throwaway {
		// Commits still reach the kernel, so that a killed server loses none of them; only a crash
		// of the machine would. (synchronous_commit=off would lose some, and saves little more.)
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off")
		if c.has("pg_stat_statements") {
			// For tests that measure statements: loaded only at a start, and idle until a database turns it on.
			args = append(args, "-c", "shared_preload_libraries=pg_stat_statements", "-c", "pg_stat_statements.track=none")
		}
	}
	// Not bound to a context: a server ends by Stop, never because a start's context ended.
	return c.command(context.Background(), "postgres", args...)
}

// has tells whether the server finds a library of its contributed modules, which packages may leave out.
func (c *cluster) has(library string) bool {
	for _, dir := range []string{"../lib", "../lib/postgresql"} {
		for _, suffix := range []string{".so", ".dylib"} {
			if _, err := os.Stat(filepath.Join(c.bin, dir, library+suffix)); err == nil {
				return true
			}
		}
	}
	return false
}

// command prepares one of the server's programs, run as the server's account.
func (c *cluster) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, program), args...)
	cmd.Dir = c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.account}
	return cmd
}

// own makes a directory that only the server's account, and root, can enter.
func (c *cluster) own(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if c.account == nil {
		return nil
	}
	return os.Lchown(dir, int(c.account.Uid), int(c.account.Gid))
}

// url names a database of the cluster.
func (c *cluster) url(database string) string {
	query := url.Values{"host": {c.socketDir}, "port": {"5432"}}
	return fmt.Sprintf("postgres://postgres@/%s?%s", database, query.Encode())
}

func (c *cluster) dataDir() string { return filepath.Join(c.dir, "data") }
func (c *cluster) logFile() string { return filepath.Join(c.dir, "postgres.log") }

// close gives up the cluster: a throwaway one is removed, another is unlocked.
func (c *cluster) close() error {
	var err error
	if c.throwaway && c.dir != "" {
		err = os.RemoveAll(c.dir)
	}
	if c.cancel != nil {
		c.cancel()
	}
	if c.lock != nil {
		c.lock.Close()
	}
	return err
}

// scratchDir makes a temporary directory that the server's account can enter.
func scratchDir() (string, error) {
	dir, err := os.MkdirTemp("", "toolpark-")
	if err == nil && !enterable(dir) {
		_ = os.Remove(dir)
		dir, err = os.MkdirTemp("/tmp", "toolpark-")
	}
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711)
}

// openDir makes a directory that the server's account can enter, and returns it. Postgres refuses to
// run as root, and the account it then runs as cannot enter, say, /root: in that case a directory
// below /var/tmp stands in for dir, always the same one.
func openDir(dir string) (string, error) {
	if !enterable(dir) {
		dir = filepath.Join("/var/tmp", "toolpark-"+shortHash(dir))
	}
	return dir, os.MkdirAll(dir, 0o711)
}

// enterable tells whether the server's account can reach a directory that is about to be made.
func enterable(dir string) bool {
	if os.Geteuid() != 0 {
		return true
	}
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err == nil && info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if parent == filepath.Dir(parent) {
			return true
		}
	}
}

// serverAccount picks the account a server must run as when we are root: the owner of the data,
// else postgres where a package made it, else nobody. It is nil when we are not root.
func serverAccount(dataDir string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	var owner syscall.Stat_t
	if err := syscall.Stat(dataDir, &owner); err == nil && owner.Uid != 0 {
		return &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
		if uidErr == nil && gidErr == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("Postgres refuses to run as root and there is no account postgres or nobody: run this as another user, or set DATABASE_URL")
}

// shortHash names a directory by its path.
func shortHash(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:6])
}
