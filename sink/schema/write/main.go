// Command write writes the JSON Schema and the AsyncAPI document of events to a folder.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/fencepost/fencepost/sink/schema"
)

func main() {
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(folder string) error {
	for name, make := range map[string]func() ([]byte, error){
		"event.schema.json": schema.JSON, "asyncapi.json": schema.AsyncAPI,
	} {
		text, err := make()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
