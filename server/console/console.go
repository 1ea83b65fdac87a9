// Package console serves the web console, whose files are embedded in the program. `make console`
// builds them from the sources in the folder console. A program built without it serves a page that
// names the command.
//
// The files are public: they hold no data. The page calls the API of the node as any client, with
// the token that its user enters. A strict Content-Security-Policy allows no code but these files,
// and no connection but to the node.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// Path is the path of the console on the port of the API.
const Path = "/console/"

//go:embed all:dist
var dist embed.FS

const (
	index       = "index.html"
	placeholder = "placeholder.html"
)

// policy allows the files of the console and calls to the node that serves it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// kinds are the content types by ending; those of the system may differ.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// asset is a file, plain and compressed.
type asset struct {
	plain, zipped []byte
	kind, etag    string
	status        int
	fixed         bool // its name contains a hash of its content
	transient     bool // must not be kept, and has no compressed form
}

// otherVersion is served for the script of another version, which the page of another node named:
// the browser would show an empty page for an error.
var otherVersion = &asset{
	kind: kinds[".js"], status: http.StatusOK, etag: `"other"`, transient: true,
	plain: []byte(`const make = (kind, text) => {
  const made = document.createElement(kind);
  made.textContent = text;
  return made;
};
const main = make("main", "");
main.append(make("h1", "Fencepost"), make("p", "The console could not start: its page and its ` +
		`script come from nodes of different versions. Reload the page. If this stays, finish ` +
		`the upgrade, or let the load balancer send each browser to one node."));
main.lastChild.setAttribute("role", "alert");
document.getElementById("root").append(main);
`),
}

// Handler serves the console. It is safe for concurrent use.
type Handler struct{ assets map[string]*asset }

// New returns the handler of the embedded console.
func New() (*Handler, error) {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	return newHandler(files)
}

// Built reports whether the program contains the console.
func Built() bool {
	_, err := fs.Stat(dist, "dist/"+index)
	return err == nil
}

func newHandler(files fs.FS) (*Handler, error) {
	h := &Handler{assets: map[string]*asset{}}
	names, err := fs.Glob(files, "*.*")
	if err != nil {
		return nil, fmt.Errorf("console: list the files: %w", err)
	}
	for _, name := range names {
		if h.assets[name], err = load(files, name); err != nil {
			return nil, fmt.Errorf("console: read file %s: %w", name, err)
		}
	}
	start, built := h.assets[index]
	if !built {
		start = h.assets[placeholder]
		start.status = http.StatusServiceUnavailable
	}
	h.assets[""] = start
	delete(h.assets, placeholder)
	return h, nil
}

func load(files fs.FS, name string) (*asset, error) {
	plain, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(plain)
	a := &asset{
		plain: plain, kind: kinds[path.Ext(name)], status: http.StatusOK,
		etag:  `"` + hex.EncodeToString(sum[:12]) + `"`,
		fixed: strings.HasSuffix(name, ".js") || strings.HasSuffix(name, ".css"),
	}
	var zipped bytes.Buffer
	to, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := to.Write(plain); err != nil {
		return nil, err
	}
	if err := to.Close(); err != nil {
		return nil, err
	}
	a.zipped = zipped.Bytes()
	return a, nil
}

// Serves reports whether a path belongs to the console.
func Serves(urlPath string) bool {
	return urlPath == strings.TrimSuffix(Path, "/") || strings.HasPrefix(urlPath, Path)
}

// ServeHTTP serves a file.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the console is read with GET", http.StatusMethodNotAllowed)
		return
	}
	name, below := strings.CutPrefix(r.URL.Path, Path)
	if !below {
		http.Redirect(w, r, Path, http.StatusPermanentRedirect)
		return
	}
	a, known := h.assets[name]
	if !known && strings.HasPrefix(name, "main-") && path.Ext(name) == ".js" {
		otherVersion.send(w, r)
		return
	}
	if !known {
		http.Error(w, "unknown file of the console; open "+Path, http.StatusNotFound)
		return
	}
	a.send(w, r)
}

func (a *asset) send(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Type", a.kind)
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Vary", "Accept-Encoding")
	head.Set("ETag", a.etag)
	head.Set("Cache-Control", "no-cache")
	if a.fixed {
		head.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if a.transient {
		head.Set("Cache-Control", "no-store")
	}
	if r.Header.Get("If-None-Match") == a.etag && !a.transient {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := a.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && !a.transient {
		body = a.zipped
		head.Set("Content-Encoding", "gzip")
	}
	head.Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(a.status)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // fails only if the client has gone
	}
}
