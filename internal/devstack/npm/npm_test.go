package npm_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/devstack/npm"
)

func TestInstall(t *testing.T) {
	t.Parallel()

	t.Run("unpacks the files with their modes", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "installed")
		require.NoError(t, serve(t, map[string]int64{"package/bin/run": 0o755, "package/README": 0o644}).Install(t.Context(), dir))
		info, err := os.Stat(filepath.Join(dir, "bin", "run"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o755), info.Mode())
		body, err := os.ReadFile(filepath.Join(dir, "README"))
		require.NoError(t, err)
		require.Equal(t, "package/README", string(body))
	})

	t.Run("leaves nothing of a package with another hash", func(t *testing.T) {
		t.Parallel()
		parent := t.TempDir()
		p := serve(t, map[string]int64{"package/README": 0o644})
		p.SHA512 = "other"
		require.ErrorContains(t, p.Install(t.Context(), filepath.Join(parent, "installed")), "must be other")
		requireEmpty(t, parent)
	})

	t.Run("leaves nothing of a package that writes outside", func(t *testing.T) {
		t.Parallel()
		parent := t.TempDir()
		p := serve(t, map[string]int64{"package/../../escaped": 0o644})
		require.Error(t, p.Install(t.Context(), filepath.Join(parent, "installed")))
		requireEmpty(t, parent)
	})

	t.Run("says what the registry answered", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(server.Close)
		err := npm.Package{URL: server.URL}.Install(t.Context(), filepath.Join(t.TempDir(), "installed"))
		require.ErrorContains(t, err, "404")
	})
}

// serve offers a package whose files, given with their modes, contain their own names.
func serve(t *testing.T, files map[string]int64) npm.Package {
	t.Helper()
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	writer := tar.NewWriter(zipped)
	for name, mode := range files {
		require.NoError(t, writer.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(name)), Typeflag: tar.TypeReg}))
		_, err := writer.Write([]byte(name))
		require.NoError(t, err)
	}
	require.NoError(t, writer.Close())
	require.NoError(t, zipped.Close())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(archive.Bytes())
	}))
	t.Cleanup(server.Close)
	sum := sha512.Sum512(archive.Bytes())
	return npm.Package{URL: server.URL, SHA512: base64.StdEncoding.EncodeToString(sum[:])}
}

func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
