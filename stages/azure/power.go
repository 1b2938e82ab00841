package azure

import (
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

const powerPrefix = "PowerState/"

// powerStates are those that Azure documents (VM states and billing).
var powerStates = []string{"starting", "running", "stopping", "stopped", "deallocating", "deallocated"}

// power reads the one power state of an instance view. Why is empty when there
// is exactly one and it is known; else it says what is there instead.
func power(view *armcompute.VirtualMachineInstanceView) (state, why string) {
	if view == nil {
		return "", "the answer has no instance view"
	}
	var found []string
	for _, s := range view.Statuses {
		if s == nil {
			continue
		}
		if code := text(s.Code); len(code) >= len(powerPrefix) && strings.EqualFold(code[:len(powerPrefix)], powerPrefix) {
			found = append(found, code)
		}
	}
	switch {
	case len(found) == 0:
		return "", fmt.Sprintf("the instance view has no power state among %d statuses", len(view.Statuses))
	case len(found) > 1:
		return "", fmt.Sprintf("the instance view has %d power states: %s", len(found), shorten(strings.Join(found, ", ")))
	case !slices.Contains(powerStates, strings.TrimPrefix(found[0], powerPrefix)):
		return "", fmt.Sprintf("the instance view has the power state %s, which is none of %s", shorten(found[0]), strings.Join(powerStates, ", "))
	}
	return found[0], ""
}

// shorten bounds what an error repeats of an answer.
func shorten(s string) string {
	const most = 200
	if len(s) > most {
		return fmt.Sprintf("%.*q…", most, s)
	}
	return fmt.Sprintf("%q", s)
}
