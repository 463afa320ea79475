package cmd

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"firebreakdns.io/firebreak/plugin/pkg/protocol/version"
)

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Say which firebreak this is",
		Args:    noArgs,
		Example: a.examples("firebreak version\nfirebreak version -o json"),
		RunE: func(*cobra.Command, []string) error {
			if a.global.output == "json" || a.global.output == "yaml" { // JSON is YAML too
				return json.NewEncoder(a.Out).Encode(map[string]string{
					"version": version.String(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintf(a.Out, "firebreak %s (%s, %s/%s)\n", version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
