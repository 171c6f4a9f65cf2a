// The boxes that select2 puts in a select's place have no name of their own: they get the label's.
function nameBoxes() {
  for (const select of document.querySelectorAll("select.select2-hidden-accessible")) {
    const label = select.labels[0];
    const box = select.nextElementSibling;
    if (!label || !box) continue;
    label.id ||= `${select.id}-label`;
    for (const part of box.querySelectorAll("[role=searchbox], [role=textbox]")) {
      part.setAttribute("aria-labelledby", label.id);
    }
    const chosen = box.querySelector(".select2-selection--single[role=combobox]");
    chosen?.setAttribute("aria-labelledby", `${label.id} ${chosen.getAttribute("aria-labelledby")}`);
  }
}

// jQuery calls back in order, and select2's own callback, which may come after the load event, was there before.
addEventListener("load", () => window.django?.jQuery?.(nameBoxes));

// Several values stand in a list, and select2 would put a cross that takes all away beside its items.
addEventListener("DOMContentLoaded", () => {
  for (const select of document.querySelectorAll("select.admin-autocomplete[multiple]")) select.dataset.allowClear = "false";
});
