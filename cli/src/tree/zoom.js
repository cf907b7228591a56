// In a picture that is opened by itself: a click on a frame makes it as wide as the picture, one on the lowest frame
// shows all again. Names are read and set as text alone.
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
})();
