package azure

// gpus says which graphics processors the sizes have that conversions use most.
// Reference: Azure, "NC A100 v4", "NCads H100 v5", "NCasT4 v3", "NVadsA10 v5" and "ND" sizes series.
var gpus = map[string]string{
	"Standard_NC24ads_A100_v4":  "1 × NVIDIA A100 80 GB",
	"Standard_NC48ads_A100_v4":  "2 × NVIDIA A100 80 GB",
	"Standard_NC96ads_A100_v4":  "4 × NVIDIA A100 80 GB",
	"Standard_ND96asr_v4":       "8 × NVIDIA A100 40 GB",
	"Standard_ND96amsr_A100_v4": "8 × NVIDIA A100 80 GB",
	"Standard_NC40ads_H100_v5":  "1 × NVIDIA H100 NVL 94 GB",
	"Standard_NC80adis_H100_v5": "2 × NVIDIA H100 NVL 94 GB",
	"Standard_ND96isr_H100_v5":  "8 × NVIDIA H100 80 GB",
	"Standard_NC4as_T4_v3":      "1 × NVIDIA T4 16 GB",
	"Standard_NC8as_T4_v3":      "1 × NVIDIA T4 16 GB",
	"Standard_NC16as_T4_v3":     "1 × NVIDIA T4 16 GB",
	"Standard_NC64as_T4_v3":     "4 × NVIDIA T4 16 GB",
	"Standard_NV36ads_A10_v5":   "1 × NVIDIA A10 24 GB",
	"Standard_NV72ads_A10_v5":   "2 × NVIDIA A10 24 GB",
	"Standard_D4as_v5":          "none",
	"Standard_D8as_v5":          "none",
	"Standard_D16as_v5":         "none",
}

// GPU tells which graphics processors a size has by its name: "none", or
// "unknown" for a size that the table lacks. It is what the name promises, not what was seen in the guest.
func GPU(size string) string {
	if g, ok := gpus[size]; ok {
		return g
	}
	return "unknown"
}
