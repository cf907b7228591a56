// In a picture that is opened by itself. A click on a frame makes it as wide as the picture. A click on the top frame
// shows all again. A search colours the frames whose names hold a text. Names are read and set as text alone.
(function () {
  var frames = Array.prototype.slice.call(document.querySelectorAll("g.f"));
  var edge = 10, width = 1180, letter = 7.25;
  function fit(name, room) {
    var letters = Math.floor(room / letter);
    if (letters < 3) return "";
    while (name.length > letters && /^[^<( ]*?::/.test(name)) name = name.replace(/^[^<( ]*?::/, "");
    return name.length <= letters ? name : name.slice(0, letters - 1) + "…";
  }
  frames.forEach(function (frame) {
    frame.addEventListener("click", function () {
      var left = +frame.dataset.x, share = +frame.dataset.w;
      frames.forEach(function (other) {
        var x = (+other.dataset.x - left) / share, w = +other.dataset.w / share;
        var begin = Math.max(x, 0), end = Math.min(x + w, 1);
        var rect = other.querySelector("rect"), text = other.querySelector("text");
        if (end - begin <= 1e-9) { other.style.display = "none"; return; }
        other.style.display = "";
        other.style.opacity = x < -1e-9 || x + w > 1 + 1e-9 ? 0.55 : 1;
        rect.setAttribute("x", edge + begin * width);
        rect.setAttribute("width", Math.max((end - begin) * width - 0.4, 0.2));
        text.setAttribute("x", edge + begin * width + 3);
        text.textContent = fit(other.dataset.n, (end - begin) * width - 6);
      });
    });
  });

  // A text and no regular expression: names of Rust hold `{`, `[` and `<`.
  var button = document.getElementById("search"), label = button.textContent, isSearching = false;
  function search(text) {
    isSearching = text !== "";
    var found = frames.filter(function (frame) {
      var isFound = isSearching && frame.dataset.n.toLowerCase().indexOf(text.toLowerCase()) >= 0;
      frame.classList.toggle("found", isFound);
      return isFound;
    });
    // A frame inside of another one does not count again.
    var end = 0, share = 0;
    found.map(function (frame) { return [+frame.dataset.x, +frame.dataset.w]; })
      .sort(function (a, b) { return a[0] - b[0] || b[1] - a[1]; })
      .forEach(function (part) {
        if (part[0] + part[1] <= end + 1e-6) return;
        share += part[1];
        end = part[0] + part[1];
      });
    button.textContent = isSearching ? fit(text, 200) + ": " + (100 * share).toFixed(2) + " % · click to end" : label;
  }
  function ask() {
    search(prompt("Part of a name:") || "");
  }
  button.addEventListener("click", function () { isSearching ? search("") : ask(); });
  addEventListener("keydown", function (event) {
    if ((event.ctrlKey || event.metaKey) && event.key === "f") { event.preventDefault(); ask(); }
  });
})();
