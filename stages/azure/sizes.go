package azure

import "regexp"

// gpus says which graphics processors the sizes have that conversions use most.
// Reference: Azure, "NC A100 v4", "NCads H100 v5", "NCasT4 v3", "NVadsA10 v5" and
// "ND" (A100 v4, H100 v5, H200 v5, MI300X v5) sizes series.
var gpus = map[string]string{
	"Standard_NC24ads_A100_v4":   "1 × NVIDIA A100 80 GB",
	"Standard_NC48ads_A100_v4":   "2 × NVIDIA A100 80 GB",
	"Standard_NC96ads_A100_v4":   "4 × NVIDIA A100 80 GB",
	"Standard_ND96asr_v4":        "8 × NVIDIA A100 40 GB",
	"Standard_ND96amsr_A100_v4":  "8 × NVIDIA A100 80 GB",
	"Standard_NC40ads_H100_v5":   "1 × NVIDIA H100 NVL 94 GB",
	"Standard_NC80adis_H100_v5":  "2 × NVIDIA H100 NVL 94 GB",
	"Standard_ND96isr_H100_v5":   "8 × NVIDIA H100 80 GB",
	"Standard_NC4as_T4_v3":       "1 × NVIDIA T4 16 GB",
	"Standard_NC8as_T4_v3":       "1 × NVIDIA T4 16 GB",
	"Standard_NC16as_T4_v3":      "1 × NVIDIA T4 16 GB",
	"Standard_NC64as_T4_v3":      "4 × NVIDIA T4 16 GB",
	"Standard_NV36ads_A10_v5":    "1 × NVIDIA A10 24 GB",
	"Standard_NV72ads_A10_v5":    "2 × NVIDIA A10 24 GB",
	"Standard_NV6ads_A10_v5":     "1/6 × NVIDIA A10, 4 GB",
	"Standard_NV12ads_A10_v5":    "1/3 × NVIDIA A10, 8 GB",
	"Standard_NV18ads_A10_v5":    "1/2 × NVIDIA A10, 12 GB",
	"Standard_ND96isr_H200_v5":   "8 × NVIDIA H200 141 GB",
	"Standard_ND96isr_MI300X_v5": "8 × AMD MI300X 192 GB",
}

// withoutGPU are the sizes of families that have none: family, its variants, and
// the number of processors (Azure, "Virtual machine size naming conventions").
var withoutGPU = regexp.MustCompile(`^Standard_[ABDEFHLM][A-Z]*[0-9]`)

// GPU tells which graphics processors a size has by its name: "none" of families
// without any, "unknown" of another size that the table lacks. It is what the name promises, not what was seen in the guest.
func GPU(size string) string {
	if g, ok := gpus[size]; ok {
		return g
	}
	if withoutGPU.MatchString(size) {
		return "none"
	}
	return "unknown"
}
