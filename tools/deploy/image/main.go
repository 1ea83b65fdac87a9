// Command image writes an OCI image with one static program, without a container engine.
//
//	go run -C tools/deploy ./image -program FILE -arch amd64 -version v1.2.3 -to FOLDER
//
// The folder is an OCI layout, which "skopeo copy oci:FOLDER docker://..." pushes. The image has no
// shell. The same inputs give the same image.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	program = "usr/local/bin/fencepost"
	config  = "/etc/fencepost/fencepost.yaml"
	// user is the number of "nonroot" in most base images.
	user = 65532
)

// options are the inputs of an image.
type options struct{ program, roots, arch, version, to string }

func main() {
	var o options
	flag.StringVar(&o.program, "program", "", "the static program")
	flag.StringVar(&o.roots, "roots", "/etc/ssl/certs/ca-certificates.crt",
		"certificates of the authorities that the program trusts")
	flag.StringVar(&o.arch, "arch", "amd64", "architecture of the program")
	flag.StringVar(&o.version, "version", "", "version of the program")
	flag.StringVar(&o.to, "to", "", "folder to write")
	flag.Parse()
	if err := build(o); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func build(o options) error {
	if o.program == "" || o.to == "" || o.version == "" {
		return errors.New("-program, -version and -to are required")
	}
	base, err := systemFiles(o.roots)
	if err != nil {
		return err
	}
	binary, err := programFile(o.program)
	if err != nil {
		return err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: o.arch, OS: "linux", RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:         fmt.Sprintf("%d:%d", user, user),
			Entrypoint:   []string{"/" + program},
			Cmd:          []string{"serve", "--config", config},
			WorkingDir:   "/",
			ExposedPorts: map[string]struct{}{"9090/tcp": {}, "9091/tcp": {}},
			Env:          []string{"PATH=/usr/local/bin"},
			Labels: map[string]string{
				"org.opencontainers.image.title":    "fencepost",
				"org.opencontainers.image.version":  o.version,
				"org.opencontainers.image.source":   "https://github.com/fencepost/fencepost",
				"org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
	})
	if err != nil {
		return err
	}
	if image, err = mutate.AppendLayers(image, base, binary); err != nil {
		return err
	}
	if err := os.RemoveAll(o.to); err != nil {
		return err
	}
	folder, err := layout.Write(o.to, empty.Index)
	if err != nil {
		return err
	}
	return folder.AppendImage(image, layout.WithPlatform(
		v1.Platform{OS: "linux", Architecture: o.arch}))
}

// entry is a file of a layer, or a folder if its name ends with a slash.
type entry struct {
	name    string
	mode    int64
	owner   int
	content []byte
}

func systemFiles(roots string) (v1.Layer, error) {
	certificates, err := os.ReadFile(roots)
	if err != nil {
		return nil, fmt.Errorf("%w; name the file with -roots", err)
	}
	passwd := fmt.Sprintf("root:x:0:0:root:/:/none\nfencepost:x:%d:%d::/:/none\n", user, user)
	group := fmt.Sprintf("root:x:0:\nfencepost:x:%d:\n", user)
	return layer([]entry{
		{"etc/", 0o755, 0, nil},
		{"etc/group", 0o644, 0, []byte(group)},
		{"etc/passwd", 0o644, 0, []byte(passwd)},
		{"etc/fencepost/", 0o755, 0, nil},
		{"etc/ssl/", 0o755, 0, nil},
		{"etc/ssl/certs/", 0o755, 0, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, 0, certificates},
		{"tmp/", 0o1777, 0, nil},
	})
}

func programFile(name string) (v1.Layer, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return layer([]entry{
		{"usr/", 0o755, 0, nil},
		{"usr/local/", 0o755, 0, nil},
		{path.Dir(program) + "/", 0o755, 0, nil},
		{program, 0o755, 0, content},
	})
}

func layer(entries []entry) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		kind := byte(tar.TypeReg)
		if e.name[len(e.name)-1] == '/' {
			kind = tar.TypeDir
		}
		header := &tar.Header{Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner,
			Size: int64(len(e.content)), Typeflag: kind, ModTime: time.Unix(0, 0)}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
}
