// Package npm unpacks a package of the npm registry whose hash is known, without npm.
package npm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// maxArchive bounds a download: the packages we take have some tens of megabytes.
const maxArchive = 256 << 20

// Package is one version of a package for one platform.
type Package struct {
	URL    string // of the tarball
	SHA512 string // base64, as in the registry's dist.integrity after "sha512-"
}

// Install downloads the package, checks its hash and unpacks it. The directory must not exist; it is
// there and whole, or not there.
func (p Package) Install(ctx context.Context, dir string) error {
	archive, err := p.download(ctx)
	if err != nil {
		return fmt.Errorf("download %s: %w", p.URL, err)
	}
	partial, err := os.MkdirTemp(filepath.Dir(dir), "partial-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	if err := errors.Join(unpack(archive, partial), os.Chmod(partial, 0o755)); err != nil {
		return fmt.Errorf("unpack %s: %w", p.URL, err)
	}
	return os.Rename(partial, dir)
}

func (p Package) download(ctx context.Context) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	archive, err := io.ReadAll(io.LimitReader(response.Body, maxArchive))
	if err != nil {
		return nil, err
	}
	if sum := sha512.Sum512(archive); base64.StdEncoding.EncodeToString(sum[:]) != p.SHA512 {
		return nil, fmt.Errorf("its SHA-512 is %s and must be %s", base64.StdEncoding.EncodeToString(sum[:]), p.SHA512)
	}
	return archive, nil
}

// unpack writes the files of an npm tarball, which holds no links and keeps all below "package/".
func unpack(archive []byte, dir string) error {
	// Through a root, no name leads outside the directory.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return err
	}
	files := tar.NewReader(unzipped)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name, ok := strings.CutPrefix(header.Name, "package/")
		if !ok || header.Typeflag != tar.TypeReg {
			continue
		}
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		file, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, header.FileInfo().Mode().Perm())
		if err != nil {
			return err
		}
		_, err = io.Copy(file, files) //nolint:gosec // no bomb: the archive has the hash we expect
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
}
