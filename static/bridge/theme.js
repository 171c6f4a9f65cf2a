// Take the theme that the admin was set to; without one the system decides.
(() => {
  let theme = "auto";
  try {
    theme = JSON.parse(localStorage.getItem("adminTheme") ?? localStorage.getItem("_x_adminTheme")) ?? "auto";
  } catch {
    // Somebody wrote something else there.
  }
  if (theme === "dark" || theme === "light") document.documentElement.classList.add(theme);
})();
