package sandbox_test

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/sandbox"
	"github.com/toolpark/toolpark/sdk/runner"
)

// box is a sandbox over a directory of its own, with a secret beside it that no file tool may reach.
type box struct {
	t     *testing.T
	dir   string
	tools map[string]runner.Tool
}

const secret = "the secret outside"

func setup(t *testing.T) *box {
	t.Helper()
	outer := t.TempDir()
	dir := filepath.Join(outer, "served")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(outer, "secret"), []byte(secret), 0o644))
	s, err := sandbox.Open(dir, os.Getenv("PATH"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	b := &box{t: t, dir: s.Dir(), tools: map[string]runner.Tool{}}
	for _, tool := range s.Tools() {
		b.tools[tool.Name] = tool
	}
	return b
}

func (b *box) file(name, content string) {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(b.t, os.WriteFile(path, []byte(content), 0o644))
}

func (b *box) content(name string) string {
	b.t.Helper()
	content, err := os.ReadFile(filepath.Join(b.dir, name))
	require.NoError(b.t, err)
	return string(content)
}

// in is a tool's input.
type in map[string]any

func (b *box) call(tool string, input in) runner.Result {
	b.t.Helper()
	return b.callWith(context.Background(), tool, input, nil)
}

func (b *box) callWith(ctx context.Context, tool string, input in, progress func(jsontext.Value)) runner.Result {
	b.t.Helper()
	raw, err := json.Marshal(input)
	require.NoError(b.t, err)
	r, err := b.tools[tool].Run(ctx, runner.Call{Tool: tool, Input: raw, Progress: progress})
	require.NoError(b.t, err)
	return r
}

func TestToolsAreAnnounceable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Len(t, b.tools, 6)
	for name, tool := range b.tools {
		require.NotEmpty(t, tool.Description, name)
		var schema struct {
			Type       string                    `json:"type"`
			Properties map[string]jsontext.Value `json:"properties"`
			Additional *bool                     `json:"additionalProperties"`
		}
		require.NoError(t, json.Unmarshal(tool.InputSchema, &schema), name)
		require.Equal(t, "object", schema.Type, name)
		require.NotNil(t, schema.Additional, name)
		require.False(t, *schema.Additional, name)
		// A field that the schema names is one the tool reads.
		for property := range schema.Properties {
			r := b.call(name, in{property: []any{}})
			require.Contains(t, r.Text, "does not match the schema", "%s.%s", name, property)
			require.Contains(t, r.Text, property, "%s.%s", name, property)
			require.NotContains(t, r.Text, "unknown", "%s.%s", name, property)
		}
	}
	require.Equal(t, toolpark.ScopeOpen, b.tools["bash"].EffectProfile.EffectScope)
	require.False(t, b.tools["bash"].EffectProfile.Replayable())
	require.False(t, b.tools["edit"].EffectProfile.Replayable())
	require.True(t, b.tools["write"].EffectProfile.Replayable())
	require.Equal(t, toolpark.EffectReadOnly, b.tools["grep"].EffectProfile.Kind)
}

func TestUnknownInputIsRefused(t *testing.T) {
	t.Parallel()
	r := setup(t).call("read", in{"path": "a", "mode": "fast"})
	require.True(t, r.IsError)
	require.Contains(t, r.Text, "mode")
}

func TestFileToolsStayInside(t *testing.T) {
	t.Parallel()
	paths := map[string]string{
		"parent":            "../secret",
		"hidden parent":     "sub/../../secret",
		"absolute":          "", // filled in below
		"relative link":     "link",
		"absolute link":     "abslink",
		"link to directory": "linkdir/secret",
		"proc":              "/proc/self/environ",
	}
	for name, path := range paths {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			outer := filepath.Dir(b.dir)
			if path == "" {
				path = filepath.Join(outer, "secret")
			}
			require.NoError(t, os.Mkdir(filepath.Join(b.dir, "sub"), 0o755))
			require.NoError(t, os.Symlink("../secret", filepath.Join(b.dir, "link")))
			require.NoError(t, os.Symlink(filepath.Join(outer, "secret"), filepath.Join(b.dir, "abslink")))
			require.NoError(t, os.Symlink("..", filepath.Join(b.dir, "linkdir")))
			for _, r := range []runner.Result{
				b.call("read", in{"path": path}),
				b.call("write", in{"path": path, "content": "overwritten"}),
				b.call("write", in{"path": path + "/deep/er", "content": "overwritten"}),
				b.call("edit", in{"path": path, "old_string": "secret", "new_string": "x"}),
				b.call("grep", in{"pattern": "secret", "path": path}),
			} {
				require.NotContains(t, r.Text, secret)
				if !strings.HasPrefix(r.Text, "No line matches") { // a link is no regular file to grep
					require.True(t, r.IsError, r.Text)
				}
			}
			require.NotContains(t, b.call("grep", in{"pattern": "secret"}).Text, secret)
			require.True(t, b.call("glob", in{"pattern": "**", "path": "linkdir"}).IsError)
			content, err := os.ReadFile(filepath.Join(outer, "secret"))
			require.NoError(t, err)
			require.Equal(t, secret, string(content))
			entries, err := os.ReadDir(outer)
			require.NoError(t, err)
			require.Len(t, entries, 2)
		})
	}
}

func TestAbsolutePathsInsideWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.file("a.txt", "hello")
	require.Contains(t, b.call("read", in{"path": filepath.Join(b.dir, "a.txt")}).Text, "hello")
	require.Equal(t, "a.txt", b.call("glob", in{"pattern": "*.txt", "path": b.dir}).Text)
}

func TestLinksInsideAreFollowedForReading(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.file("real/a.txt", "hello")
	require.NoError(t, os.Symlink("real", filepath.Join(b.dir, "alias")))
	require.Contains(t, b.call("read", in{"path": "alias/a.txt"}).Text, "hello")
	require.NoError(t, os.Symlink("real/a.txt", filepath.Join(b.dir, "l.txt")))
	require.Contains(t, b.call("read", in{"path": "l.txt"}).Text, "hello")
	r := b.call("write", in{"path": "l.txt", "content": "x"})
	require.True(t, r.IsError)
	require.Contains(t, r.Text, "symbolic link")
	require.Equal(t, "hello", b.content("real/a.txt"))
}

func TestOpenRefusesWhatItCannotServe(t *testing.T) {
	t.Parallel()
	_, err := sandbox.Open(filepath.Join(t.TempDir(), "absent"), os.Getenv("PATH"))
	require.Error(t, err)
	_, err = sandbox.Open(t.TempDir(), t.TempDir())
	require.ErrorContains(t, err, "bash")
}
