package stages

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
)

// A program that was given no way to a provider releases and observes nothing,
// and neither does one whose way leads nowhere.
func TestNothingIsRentedWithoutAProvider(t *testing.T) {
	broken := func(schemas.Compute, func() time.Time) (Rental, error) { return nil, errors.New("nobody is signed in") }
	for want, connect := range map[string]ConnectRental{"no provider of rented compute is known here": nil, "nobody is signed in": broken} {
		for _, stage := range []Stage{Observe{Connect: connect}, Release{Connect: connect}} {
			run := newRun(t, "rented", map[string]any{"vm": "vm.yaml"})
			body := fmt.Sprintf("schema: %s\nprovider: azure\nsubscription: 8c4b1f2e-0000-4000-8000-0123456789ab\nresourceGroup: g\nname: m\nvmId: 5f1c2d3e-1111-4111-8111-abcdefabcdef\nsize: Standard_D4as_v5\n", schemas.ComputeURI)
			if err := os.WriteFile(filepath.Join(run.Project, "vm.yaml"), []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := stage.Run(t.Context(), run)
			if out != nil || err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, %v; want %q", stage.Uses(), out, err, want)
			}
		}
	}
}
