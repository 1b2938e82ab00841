package azure

import (
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
)

// dmiUUID is the firmware's identity of the machine that this runs on, where it may be read (Linux, as root).
func dmiUUID() string {
	b, err := os.ReadFile("/sys/class/dmi/id/product_uuid")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// sameUUID compares a firmware's identity with Azure's: SMBIOS keeps the first
// three fields in little-endian order, and guests show them either way.
func sameUUID(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	return strings.EqualFold(a, b) || strings.EqualFold(swapped(a), b)
}

func swapped(uuid string) string {
	raw, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	if err != nil || len(raw) != 16 {
		return ""
	}
	slices.Reverse(raw[0:4])
	slices.Reverse(raw[4:6])
	slices.Reverse(raw[6:8])
	return fmt.Sprintf("%x-%x-%x-%x-%x", raw[0:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}
